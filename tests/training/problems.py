"""One small training for all tests: equal programs are compiled once."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxpriv import training, worst_case

STEPS = 20
PRIVACY = training.Privacy(mu=1.0, threat_model="membership")


def data(n=200, d=5, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, d)).astype(np.float32)
    return {"x": x, "y": (x[:, 0] > 0).astype(np.float32)}


def loss(w, example, key):
    """Logistic regression."""
    del key
    return optax.sigmoid_binary_cross_entropy(w @ example["x"], example["y"])


def trainer(exact=False, **changes):
    """A `DPTrainer`; unless `exact`, its accountant is one that compiles in no time."""
    settings = {"batch_size": 40, "steps": STEPS, "noise_multiplier": 1.0, **changes}
    optimizer = settings.pop("optimizer", optax.sgd(0.5, momentum=0.5))
    made = training.DPTrainer(settings.pop("loss", loss),
                              settings.pop("model", jnp.zeros(5, jnp.float32)), optimizer,
                              settings.pop("privacy", GENEROUS), **settings)
    if not exact:
        noises = (settings["noise_multiplier"],) * settings["steps"]
        made.plan = lambda size: Cheap(size, float(settings["batch_size"]), noises, made.dim)
    return made


class Cheap(training.Plan):
    """Without amplification by sampling: a bound in closed form."""

    def curve(self, threat_model="worst_case", steps=None):
        ((noise, count),) = self._parts(self.steps if steps is None else steps)
        return worst_case.gaussian(jnp.sqrt(count) / noise).symmetric()


class Quiet(training.Plan):
    """So little noise that releases show the sums of clipped gradients;
    the accountant's long work on that is left out.
    """

    def curve(self, threat_model="worst_case", steps=None):
        return worst_case.gaussian(1.0).symmetric()


def quiet(dim=5, steps=STEPS):
    return Quiet(200, 40, (1e-6,) * steps, dim)


GENEROUS = training.Privacy(epsilon=50.0, delta=1e-5)  # far above what 20 steps spend


def equal(one, other):
    """Bit by bit."""
    return all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )
