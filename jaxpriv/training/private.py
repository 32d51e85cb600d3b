"""DP-SGD as one object for a training loop that is already there: `init`, and a jitted `step`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from jaxpriv._checks import check_whole, is_traced
from jaxpriv.training.adaptive_clipping import AdaptiveClipping
from jaxpriv.training.clipping_settings import check_clipping, clipping_of
from jaxpriv.training.draws import Draws, physical_batch
from jaxpriv.training.groups import Groups
from jaxpriv.training.keys import fresh_keys
from jaxpriv.training.optimizers.scaled import ScaleThenPrivatise
from jaxpriv.training.plan import Plan
from jaxpriv.training.sampling.users import check_users
from jaxpriv.training.sharding import data_mesh, kept_in_parts, put_in_parts
from jaxpriv.training.step import State, fresh_state, make_step
from jaxpriv.training.trainable import refuse_batch_statistics
from jaxpriv.training.trainable import trainable as trained_part


class PrivateState(NamedTuple):
    """All that changes, and the keys of all that is random: as secret as the data.

    state: a `step.State`, with parameters and optimiser state. keys: of noise, batches and the
    model. drawn: which batches the records of this epoch are in. overflowed: a batch did not fit;
    nothing has been released since. merged: makes the model of parameters.
    """

    state: State
    keys: Any
    drawn: Any
    overflowed: jax.Array
    merged: Any

    def __repr__(self):
        return "PrivateState(with secret keys, which are not shown)"

    @property
    def model(self) -> Any:
        """The model as it is now, of the kind that was given."""
        return self.merged(self.state.parameters)

    @property
    def steps(self) -> jax.Array:
        """The number of steps that were released: `Int[Array, ""]`."""
        return self.state.step


class Private:
    """What `private` returns: `init(model)`, then `step(state, data)` as often as planned."""

    def __init__(self, loss, optimizer, plan, clipping, trainable, microbatch, mesh):
        self.plan, self._optimizer, self._trainable = plan, optimizer, trainable
        self._mesh = data_mesh(None if mesh is None else mesh.devices)
        rows, at_once = physical_batch(plan, plan.dataset_size, self._mesh.size, microbatch)
        self._draws = Draws(plan, np.ones(plan.dataset_size, bool), rows)
        self._loss, self._clipping, self._at_once = loss, clipping, at_once
        self.step = jax.jit(self.update)

    def init(self, model: Any, *, seed: int | None = None) -> PrivateState:
        """The `PrivateState` before the first step; its keys come from the operating system.

        Args:
            model: a Flax NNX module, the parameters of a Linen module, or any pytree of them.
            seed: for runs that have to repeat, which are not private.

        Raises: ValueError for a model of another size than the plan's.
        """
        refuse_batch_statistics(model)
        parameters, merged = trained_part(model, self._trainable)
        dim = sum(jnp.size(leaf) for leaf in jax.tree.leaves(parameters))
        if dim != self.plan.dim:
            raise ValueError(
                f"model has {dim} parameters to train; the plan is for {self.plan.dim}"
            )
        keys = fresh_keys(seed)[:4]
        if is_traced(keys) or is_traced(parameters):
            raise ValueError("init() inside a program: its keys would be constants of it")
        drawn = self._draws.drawn(keys[1], 0)
        state = fresh_state(parameters, self._optimizer, self.plan, self._clipping)
        state, merged = put_in_parts((state, merged), self._mesh)
        return PrivateState(state, keys, drawn, jnp.bool_(False), merged)

    def update(self, state: PrivateState, data: Any) -> PrivateState:
        """`step`, not compiled: for a program that has more in it."""
        sizes = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(data)}
        if sizes != {(self.plan.dataset_size,)}:
            raise ValueError(
                f"data has leading axes {sorted(sizes)}; the plan is for "
                f"{self.plan.dataset_size} records"
            )
        noise, sampling, model, words = state.keys
        at, period = state.state.step, self._draws.period
        drawn = jax.lax.cond(
            at % period == 0, lambda: self._draws.drawn(sampling, at // period),
            lambda: state.drawn,
        ) if jax.tree.leaves(state.drawn) else state.drawn
        draw = self._draws.draw(sampling, at, drawn)
        overflowed = state.overflowed | draw.overflow
        step = make_step(
            lambda values, example, key: self._loss(state.merged(values), example, key),
            self._optimizer, self.plan, self._mesh, self._clipping, at_once=self._at_once,
        )

        def one():
            rows = jax.tree.map(lambda leaf: jnp.asarray(leaf)[draw.indices], data)
            of_noise = words if self.plan.whole_numbers else noise
            return step(state.state, of_noise, model, rows, draw.mask, draw.canaries)[0]

        after = jax.lax.cond(overflowed | (at >= self.plan.steps), lambda: state.state, one)
        after, merged = kept_in_parts((after, state.merged), self._mesh)
        return PrivateState(after, state.keys, drawn, overflowed, merged)

    def epsilon(self, state: PrivateState) -> float:
        """The worst case's epsilon at plan.delta after the steps of `state`, certified from above.

        Raises: OverflowError where a batch did not fit: training ended there, with a probability
            below 1e-12.
        """
        if state.overflowed:
            raise OverflowError(
                f"the sample of step {int(state.steps)} is larger than the batch: nothing has been "
                "released since; start anew"
            )
        return self.plan.profile(steps=int(state.steps)).epsilon(self.plan.delta)[1]


def private(
    loss: Callable[..., Any], optimizer: optax.GradientTransformation, plan: Plan, *,
    clip_norm: float = 1.0, per_layer: bool | Groups = False,
    adaptive_clipping: AdaptiveClipping | None = None, scaling: ScaleThenPrivatise | None = None,
    ghost: bool = False, trainable: Any = None, users: Any = None, microbatch: int | None = None,
    mesh: Mesh | None = None,
) -> Private:
    """A training loop's private step: it draws the plan's batch, clips, adds the plan's noise,
    updates and counts.

    Args:
        loss: (model, example, key) -> scalar, for one example without a batch axis.
        optimizer: an optax optimiser. plan: from `make_plan`.
        clip_norm, per_layer, adaptive_clipping, scaling, ghost, trainable, microbatch, mesh: as
            `DPTrainer`.
        users: `Array["records"]`, as `DPTrainer.fit`, of the data that every step is given.

    Returns: an object with `init(model)`, a jitted pure `step(state, data)` for a pytree of all
        records, `update`, the same not compiled, and `epsilon(state)`.
    Guarantee: as `DPTrainer.fit`, if every state is stepped from once, and no earlier one is kept
        and published. After the last step of the plan, or where a batch does not fit, a step
        releases nothing and returns its state. There is no ledger: what is spent is in the state.
        Gradients that are not finite count as zero, as those of records with NaN.
    Raises: ValueError for values outside their range; `step` for data of another size.

        >>> import jax.numpy as jnp, numpy as np, optax
        >>> from jaxpriv import training
        >>> x = np.random.default_rng(0).normal(size=(1000, 5)).astype(np.float32)
        >>> data = {"x": x, "y": (x[:, 0] > 0).astype(np.float32)}
        >>> def loss(w, example, key):
        ...     return optax.sigmoid_binary_cross_entropy(w @ example["x"], example["y"])
        >>> plan = training.make_plan(training.Privacy(mu=1.0), 1000, dim=5, batch_size=100,
        ...                           steps=30)
        >>> run = training.private(loss, optax.sgd(1.0), plan)
        >>> state = run.init(jnp.zeros(5))
        >>> for _ in range(plan.steps):
        ...     state = run.step(state, data)
        >>> bool(np.mean((x @ state.model > 0) == data["y"]) > 0.7), f"{run.epsilon(state):.2f}"
        (True, '0.36')
    """
    if not isinstance(plan, Plan):
        raise ValueError(f"plan = {plan!r} is not a jaxpriv.training.Plan")
    check_users(users, plan.dataset_size, plan)
    clipping = clipping_of(clip_norm, per_layer, adaptive_clipping, scaling, ghost)
    check_clipping(clipping, plan)
    if microbatch is not None:
        check_whole("microbatch", microbatch)
    return Private(loss, optimizer, plan, clipping, trainable, microbatch, mesh)
