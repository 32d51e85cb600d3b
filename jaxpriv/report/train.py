"""`jaxpriv train`: from a configuration to a run folder with ledger, model,
audit and certificate.
"""

import dataclasses
import json
import math
from pathlib import Path

import jax
import numpy as np
import optax

from jaxpriv import correlated, datasets
from jaxpriv._rounding import rounded_down, rounded_up
from jaxpriv.report.certificate import vacuous
from jaxpriv.report.training import certify_training, target_notes
from jaxpriv.training.ledger import spent
from jaxpriv.training.models import make_model
from jaxpriv.training.plan import Privacy
from jaxpriv.training.run import differences, unspent
from jaxpriv.training.sampling import limit_records, sampler_of
from jaxpriv.training.trainer import DPTrainer

_MODEL_KEY = 0  # of the initial weights, which tell nothing of the data


def loaded(config):
    """(data set, number of classes, whose record each is or None).
    Raises: ValueError for data that no model can be trained on.
    """
    data, classes = _data(config)
    if config["data"]["users"] is None:
        return data, classes, None
    data, users = _of_users(data, config)
    return data, classes, users


def _of_users(data, config):
    """(data set, users) with as many records of each user as are protected."""
    path = Path(config["data"]["folder"] or ".") / config["data"]["users"]
    users = datasets.read_users(path)
    if len(users) != len(data.x):
        raise ValueError(
            f"{path} has {len(users)} lines; accepted: {len(data.x)}, one for each training record"
        )
    kept = limit_records(users, config["privacy"]["records_per_user"])
    return data._replace(x=data.x[kept], y=data.y[kept]), users[kept]


def _data(config):
    name, folder = config["data"]["name"], config["data"]["folder"]
    loader = getattr(datasets, name)
    if name in ("digits", "diabetes"):
        if folder is not None:
            raise ValueError(
                f"folder = {folder!r} does not go with {name}, which comes with scikit-learn"
            )
        return checked_data(loader())
    if folder is None:
        raise ValueError(f"folder is missing in [data]: where the files of {name} are")
    return checked_data(loader(folder))


def checked_data(data):
    """(data, number of classes), or one clear error: no records, one class, labels out of range,
    numbers that are not finite.
    """
    for part, x, y in (("training", data.x, data.y), ("test", data.test_x, data.test_y)):
        if len(x) == 0:
            raise ValueError(f"the {part} data have no records")
        if len(x) != len(y):
            raise ValueError(f"the {part} data have {len(x)} records and {len(y)} labels")
        if not np.isfinite(x).all():
            worst = int(np.argmax(~np.isfinite(x.reshape(len(x), -1)).all(1)))
            raise ValueError(f"the {part} data are not finite in record {worst}")
    classes = int(data.y.max()) + 1
    for part, y in (("training", data.y), ("test", data.test_y)):
        odd = y[(y < 0) | (y >= classes)]
        if len(odd):
            raise ValueError(
                f"the {part} data have the label {int(odd[0])}, outside 0 ... {classes - 1}"
            )
    if len(np.unique(data.y)) < 2:
        raise ValueError(
            f"the training data have one class, {int(data.y[0])}; accepted: at least two"
        )
    return data, classes


class Job:
    """A training that a configuration describes: data, model, trainer and plan.
    Raises: ValueError for what can't be done.
    """

    def __init__(self, config, read=None, plan=None):
        """read: what `loaded` returns; plan: of this training, where it was made before."""
        self.config = config
        self.data, self.classes, self.users = read or loaded(config)
        privacy = config["privacy"]
        names = ("epsilon", "delta", "mu", "advantage", "fpr", "tpr", "threat_model")
        self.privacy = Privacy(**{name: privacy[name] for name in names})
        # the weights to start from tell nothing of the data: the same for all runs
        self.model = make_model(config["model"]["name"], self.data.x.shape[1:], self.classes,
                                config["model"]["width"], jax.random.key(_MODEL_KEY))
        self.canaries = self._canaries()
        optimizer = {
            "sgd": lambda s: optax.sgd(s["learning_rate"], momentum=s["momentum"] or None),
            "adam": lambda s: optax.adam(s["learning_rate"]),
        }[config["optimizer"]["name"]](config["optimizer"])
        self.trainer = DPTrainer(example_loss, self.model, optimizer, self.privacy,
                                 batch_size=privacy["batch_size"], epochs=privacy["epochs"],
                                 steps=privacy["steps"],
                                 noise_multiplier=privacy["noise_multiplier"],
                                 clip_norm=privacy["clip_norm"], schedule=privacy["noise_schedule"],
                                 sampler=self._sampler(), noise=privacy["noise"],
                                 records_per_user=privacy["records_per_user"] or 1,
                                 microbatch=config["run"]["microbatch"])
        if isinstance(self.canaries, int) and self.canaries > self.trainer.dim:
            raise ValueError(
                f"canaries = {self.canaries} in [audit] is outside its range 0 ... "
                f"{self.trainer.dim} parameters"
            )
        self.records = self.trainer.counted(
            len(self.data.x), self.canaries if isinstance(self.canaries, int)
            else len(self.canaries["x"]), isinstance(self.canaries, int))
        self.plan = plan or self._in_reach()

    @property
    def examples(self):
        """What is trained on, as `DPTrainer.fit` takes it."""
        return {"x": self.data.x, "y": self.data.y}

    def told(self):
        """What is said before the training, in sentences."""
        return f"{self.plan.describe()}\nTarget: {self.privacy}."

    def _sampler(self):
        """The one that [privacy] names, with the settings that it takes; None if it names none."""
        privacy = self.config["privacy"]
        names = ("largest_batch", "cycle")
        given = {name: privacy[name] for name in names if privacy[name] is not None}
        if privacy["sampler"] is None:
            if given:
                raise ValueError(f"{next(iter(given))} in [privacy] goes with a sampler")
            return None
        return sampler_of({"name": privacy["sampler"], **given})

    def _canaries(self):
        """A number of Dirac canaries, or records made of every k-th of the data with
        another label, or blank.
        """
        count, kind = self.config["audit"]["canaries"], self.config["audit"]["kind"]
        if kind == "dirac" or count == 0:
            return count
        if count > len(self.data.x):
            raise ValueError(
                f"canaries = {count} in [audit] is outside its range 0 ... "
                f"{len(self.data.x)} records"
            )
        some = np.linspace(0, len(self.data.x), count, endpoint=False).astype(int)
        x, y = self.data.x[some], self.data.y[some]
        other = ((y + 1 + np.arange(count) % (self.classes - 1)) % self.classes).astype(y.dtype)
        return {"x": x, "y": other} if kind == "mislabelled" else {"x": np.zeros_like(x), "y": y}

    def _in_reach(self):
        """The plan; ValueError where its noise is longer than all gradients together can be,
        with the nearest target.
        """
        plan = self.trainer.plan(self.records)
        buried = burial(plan)
        if buried <= 1:
            return plan
        noise = max(plan.noise_multipliers)
        within = dataclasses.replace(
            plan, noise_multipliers=tuple(each / buried for each in plan.noise_multipliers)
        )
        nearest = within.profile().epsilon(plan.delta)[1]
        raise ValueError(
            f"{self.privacy} over {plan.steps} steps of {plan.batch_size:g} records needs a noise "
            f"multiplier >= {noise:.4g}: all noise together is then {buried:.3g} times as long as "
            "all clipped gradients together can be, so accuracy will be near chance "
            f"({1 / self.classes:.0%}); nearest in reach: noise multiplier {noise / buried:.4g}, "
            f"worst case epsilon = {rounded_up(nearest)} at delta = {plan.delta:g}; or larger "
            "batches, a smaller model"
        )

    def spending(self):
        """What the run would spend, in words and numbers."""
        plan, profile = self.plan, self.plan.profile()
        low, high = profile.epsilon(plan.delta)
        epsilon = high if math.isfinite(high) else None
        notes = target_notes(plan, self.privacy, epsilon) or vacuous(epsilon, plan.delta)
        return {
            "mechanism": plan.describe(),
            "batches": plan.sampling,
            "protects": plan.adjacency,
            "target": str(self.privacy),
            "worst case": f"epsilon in [{rounded_down(low, 6)}, {rounded_up(high, 6)}] "
                          f"at delta = {plan.delta:g}",
            "advantage": f"<= {rounded_up(profile.advantage())}",
            "noise": f"{burial(plan):.3g} of the longest possible sum of all clipped gradients",
            **({"note": " ".join(notes)} if notes else {}),
        }

    def evaluate(self, model):
        logits = _logits(model, self.data.test_x)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, self.data.test_y)
        return {
            "test_accuracy": float(np.mean(np.argmax(logits, -1) == self.data.test_y)),
            "test_loss": float(np.mean(losses)),
        }

    def train(self, folder, resume, progress, then):
        """Train, or go on; then: (`Trained`) -> None,
        until which returns the run can be resumed.
        """
        run = self.config["run"]
        if not resume:
            claim(folder)
        return self.trainer.fit(self.examples, users=self.users, plan=self.plan,
                                seed=run["seed"], folder=folder, resume=resume,
                                evaluate=self.evaluate, evaluate_every=run["evaluate_every"],
                                checkpoint_every=run["checkpoint_every"], canaries=self.canaries,
                                record_releases=run["record_releases"],
                                diagnostics=run["diagnostics"], progress=progress,
                                settings=self.config, then=then)

    def certify(self, trained, folder):
        """Audit and certify what was trained, and write both. Returns the certificate."""
        (Path(folder) / "config.json").write_text(json.dumps(self.config, indent=2) + "\n")
        records = not isinstance(self.canaries, int)
        scores = (
            _losses(self.model, self.canaries) - _losses(trained.model, self.canaries)
            if records
            else None
        )
        audit = self.config["audit"]
        return certify_training(trained, folder, canaries=audit["kind"], scores=scores,
                                confidence=audit["confidence"], settings=self.config)


def burial(plan):
    """The expected length of all noise of a training together over the largest length of all its
    gradients together.

    Steps of n expected records add up to sum_t n clip_norm at most, their noise to clip_norm
    (d sum_t sigma_t^2)^1/2, or what is left of that where it is correlated.
    """
    if plan.is_correlated:
        last = correlated.row_norms(plan.strategy, plan.steps)[-1] * plan.noise_multipliers[0]
    else:
        last = np.sqrt(np.sum(np.square(plan.noise_multipliers)))
    noise = np.sqrt(plan.dim) * last
    return float(noise / (plan.batch_size * plan.steps))


def example_loss(model, example, key):
    """Cross-entropy of one example."""
    del key
    return optax.softmax_cross_entropy_with_integer_labels(model(example["x"]), example["y"])


@jax.jit
def _logits(model, x):
    return model(x)


def _losses(model, records):
    return np.asarray(
        optax.softmax_cross_entropy_with_integer_labels(_logits(model, records["x"]), records["y"])
    )


def claim(folder):
    """Refuse a folder that holds anything but a start that was cut off before
    anything was spent.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; choose another with --out")
    begun = {path.name for path in folder.glob("*")} - {"keys.json", "ledger.jsonl"}
    if begun or not unspent(folder):
        raise ValueError(
            f"{folder} is not empty: --resume the run in it, or choose another folder with --out"
        )


def check_same(folder, config):
    """Refuse to go on with a changed configuration, with the difference,
    and with what is done or not begun.
    """
    folder = Path(folder)
    if not (folder / "ledger.jsonl").exists():
        raise ValueError(f"{folder} has no run: start it without --resume")
    if unspent(folder):
        raise ValueError(f"{folder} has a run that counted nothing yet: start it without --resume")
    header, steps = spent(folder / "ledger.jsonl")
    changes = differences(header.get("settings"), json.loads(json.dumps(config)))
    if changes:
        raise ValueError(f"{folder} is the run of another configuration: {'; '.join(changes)}")
    if (folder / "certificate.html").exists() and not (folder / "keys.json").exists():
        raise ValueError(f"{folder} is done, with {steps} steps: see {folder / 'certificate.html'}")
