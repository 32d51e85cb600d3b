"""DP-SGD for Flax models from a privacy target to trained parameters,
with a ledger that cannot under-count.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding

from jaxpriv._checks import check_whole
from jaxpriv._types import FilePath, Numbers
from jaxpriv.training.adaptive_clipping import AdaptiveClipping
from jaxpriv.training.clipping_settings import check_clipping, clipping_of, clipping_settings
from jaxpriv.training.draws import Draws, in_sequence, physical_batch
from jaxpriv.training.groups import Groups
from jaxpriv.training.optimizers.scaled import ScaleThenPrivatise
from jaxpriv.training.plan import Plan, Privacy
from jaxpriv.training.planning import make_plan, steps_of
from jaxpriv.training.processes import gathered, placed
from jaxpriv.training.progress import Progress
from jaxpriv.training.run import Run
from jaxpriv.training.sampling.each_step import Poisson
from jaxpriv.training.sampling.sampler import Sampler
from jaxpriv.training.sampling.users import check_users
from jaxpriv.training.selection import Selection
from jaxpriv.training.sharding import SPLIT, data_mesh, put_in_parts
from jaxpriv.training.step import fresh_state, make_step
from jaxpriv.training.trainable import refuse_batch_statistics
from jaxpriv.training.trainable import trainable as trained_part


@dataclass(frozen=True)
class Trained:
    """What `DPTrainer.fit` returns.

    model: the trained model, of the kind that was given. privacy: the target. plan: what was
    planned; `steps` of it were run, `spent` of it count. epsilon: of the worst case at plan.delta
    after `spent` steps, certified. history: evaluations, with steps and epsilon. private: False
    where noise came from a seed. canary_members: which candidates were in the data, with
    canary_scores (of Dirac canaries) for `auditing.one_run`.
    releases: `Float[numpy.ndarray, "steps dim"]`, where they were recorded; else None.
    selection: None, or for the best of several trainings (`training.best_of`) what was selected
    from; epsilon is then of the selection, and history tells none.
    """

    model: Any
    privacy: Privacy
    plan: Plan
    steps: int
    spent: int
    epsilon: float
    history: list
    private: bool
    canary_scores: np.ndarray
    canary_members: np.ndarray
    releases: np.ndarray | None
    selection: Selection | None = None


class _Planted(NamedTuple):
    """Canaries: which candidates are in the data, the places of the Dirac canaries' entries, and
    which records are in the data, candidates among them included.
    """

    members: np.ndarray
    places: np.ndarray
    present: np.ndarray


class _Told(NamedTuple):
    """What a run tells and keeps, and how often."""

    evaluate: Callable | None
    evaluate_every: int
    checkpoint_every: int
    record: bool
    diagnostics: bool


class DPTrainer:
    """Differentially private training of a Flax NNX module, of Linen parameters,
    or of any pytree of parameters.

    Args:
        loss: (model, example, key) -> scalar, for one example without a batch axis; the model is of
            the kind given. The key is for dropout and the like: `model(x, rngs=nnx.Rngs(key))`.
        model: an NNX module, or the parameters of a Linen module or plain function. What is not an
            `nnx.Param` stays as it is; layers that mix examples (batch normalisation) have no
            per-example gradients and are refused.
        optimizer: an optax optimiser.
        privacy: a `Privacy`: the target and whom it is meant for.
        batch_size: expected number of records in a batch. epochs or steps: how long.
            noise_multiplier: see `make_plan`: one of the three may be left out and is solved for;
            usually the noise.
        clip_norm: in [1e-15, 1e15]. per_layer: clip every array of the parameters on its
            own, or a `Groups`, as `clipped_sum`.
        adaptive_clipping: a `training.adaptive_clipping.AdaptiveClipping`, which moves the clipping
            norm; its count is within the noise that is accounted. scaling: a
            `training.optimizers.ScaleThenPrivatise`; clip_norm is then of scaled gradients.
        ghost: no per-example gradients of matrices, as `ghost_clipped_sum`: less memory.
        trainable: which parameters are trained, as `training.trainable`: all unless given.
        schedule, sampler, records_per_user: as `make_plan`: how the noise varies, how batches are
            drawn, and whether users are protected.
        noise: as `make_plan`: on a grid of whole numbers where that is cheap, unless given; with
            ghost "independent".
        microbatch: rows of a device whose gradients are in memory at once; all unless given.
        mesh: of devices, over all of which batches are split; all devices unless given. Over its
            second axis, if it has one, parameters are split too (those that are not trained as
            well), and optimiser state, kept noise and checkpoints with them.

    Raises: ValueError for values outside their range, before anything is computed.

        >>> import jax, jax.numpy as jnp, numpy as np, optax
        >>> random = np.random.default_rng(0)
        >>> x = random.normal(size=(1000, 5)).astype(np.float32)
        >>> data = {"x": x, "y": (x[:, 0] > 0).astype(np.float32)}
        >>> def loss(w, example, key):
        ...     return optax.sigmoid_binary_cross_entropy(w @ example["x"], example["y"])
        >>> trainer = DPTrainer(loss, jnp.zeros(5), optax.sgd(1.0),
        ...                     Privacy(mu=1.0, threat_model="membership"), batch_size=100,
        ...                     epochs=1)
        >>> trained = trainer.fit(data, seed=0)
        >>> right = np.mean((x @ trained.model > 0) == data["y"])
        >>> trained.steps, trained.private, bool(right > 0.8)
        (10, False, True)
    """

    def __init__(
        self, loss: Callable[..., Any], model: Any, optimizer: optax.GradientTransformation,
        privacy: Privacy, *, batch_size: float | None = None, epochs: float | None = None,
        steps: int | None = None, noise_multiplier: float | None = None, clip_norm: float = 1.0,
        per_layer: bool | Groups = False, adaptive_clipping: AdaptiveClipping | None = None,
        scaling: ScaleThenPrivatise | None = None, ghost: bool = False,
        schedule: Numbers | None = None, sampler: Sampler | None = None,
        noise: Any = None, records_per_user: int = 1, trainable: Any = None,
        microbatch: int | None = None, mesh: Mesh | None = None,
    ) -> None:
        self._clipping = clipping_of(clip_norm, per_layer, adaptive_clipping, scaling, ghost)
        if not isinstance(privacy, Privacy):
            raise ValueError(f"privacy = {privacy!r} is not a jaxpriv.training.Privacy")
        if epochs is not None and steps is not None:
            raise ValueError("give epochs or steps, not both")
        if epochs is not None and (batch_size is None or not epochs > 0):
            raise ValueError(
                f"epochs = {epochs} with batch_size = {batch_size}; "
                "accepted: (0, inf), with a batch size"
            )
        if microbatch is not None:
            check_whole("microbatch", microbatch)
        self.parameters, self._merged = trained_part(model, trainable)
        refuse_batch_statistics(model)
        self.dim = sum(jnp.size(leaf) for leaf in jax.tree.leaves(self.parameters))
        if not self.dim:
            raise ValueError("model has no parameters")
        self._loss, self.optimizer, self.privacy = loss, optimizer, privacy
        self._settings: dict[str, Any] = {"batch_size": batch_size, "steps": steps,
                          "noise_multiplier": noise_multiplier, "schedule": schedule,
                          "sampler": sampler, "records_per_user": records_per_user,
                          "noise": "independent" if ghost and noise is None else noise}
        self._epochs, self._microbatch = epochs, microbatch
        self.mesh = data_mesh(None if mesh is None else mesh.devices)

    @property
    def sampler(self) -> Sampler:
        """How batches are drawn, before the plan is made: Poisson unless given."""
        return self._settings["sampler"] or Poisson()

    def counted(
        self, records: int, candidates: int, dirac: bool, plan: Plan | None = None
    ) -> int:
        """The dataset_size of a plan for so many records and candidates among canaries: Dirac
        canaries count where a sampler's curve depends on it. plan: one that is there already.
        """
        plan_or_self = plan or self
        if dirac and not plan_or_self.sampler.counts_everyone:
            return records
        each = plan.records_per_user if plan else self._settings["records_per_user"]
        return records + candidates * each

    def plan(self, dataset_size: int) -> Plan:
        """The `Plan` for so many records: what `fit` would spend.
        Raises: ValueError for targets out of reach.
        """
        settings = dict(self._settings)
        if self._epochs is not None:
            settings["steps"] = steps_of(dataset_size, settings["batch_size"], self._epochs)
        return make_plan(self.privacy, dataset_size, self.dim, **settings)

    def fit(
        self, data: Any, *, users: Any = None, seed: int | None = None,
        folder: FilePath | None = None, resume: bool = False, plan: Plan | None = None,
        evaluate: Callable[[Any], dict[str, Any]] | None = None, evaluate_every: int | None = None,
        checkpoint_every: int | None = None, canaries: Any = 0, record_releases: bool = False,
        diagnostics: bool = False, progress: bool = False, settings: Any = None,
        then: Callable[[Trained], Any] | None = None,
    ) -> Trained:
        """Train.

        Args:
            data: a pytree of arrays with one leading axis, the records.
            users: `Array["records"]`, whose record each is, where users are protected:
                `records_per_user` at most of each, as `limit_records` leaves them.
            seed: for runs that have to repeat: not private.
                Without one keys come from the operating system.
            folder: where ledger, keys, checkpoints and metrics are kept;
                nothing is kept unless given.
            resume: go on with the run in `folder`: bit by bit the same as if it had not stopped.
            plan: from `self.plan` for as many records, where it was made before. All candidates
                among `canaries` are counted, but for Dirac canaries in Poisson samples.
            evaluate: (model) -> {name: number}, on records that need no protection; every
                `evaluate_every` steps (a tenth of all unless given), when epsilon so far is
                evaluated too, and at the end. A true "stop" ends the training early.
            checkpoint_every: steps between checkpoints, which are also counted at a time;
                a tenth of all unless given.
            canaries: candidates of which a coin each puts about half into the data, to audit the
                run: a number of Dirac canaries, records whose gradient is one entry of length
                clip_norm; or records like those of `data`, from `attacks.canaries`.
            record_releases: keep every noisy release (steps x dim numbers), for white-box attacks.
            diagnostics: write loss, clipped share and non-finite gradients of every batch to
                diagnostics.jsonl: not private.
            progress: show a bar on a terminal.
            settings: anything JSON holds; a resumed run with others is refused.
            then: (`Trained`) -> None, called by the first process before the run's keys are
                deleted: until it returns, the run can be resumed.

        Returns: a `Trained`.
        Guarantee: `epsilon` at plan.delta holds for the plan's neighbouring data sets (add/remove
            of one record by Poisson), counting every step that may have been released; up to the
            quality of the generator (Threefry, 64 bits of key) and to the rounding of normal
            numbers and sums. What drawn numbers lack of the normal law's tail is counted.
        Raises: ValueError for bad data (empty, NaN, lengths that differ), for a plan of another
            training, users with too many records, and where a resumed run has other settings, data,
            weights to start from, or another program; OverflowError where a sample is larger than
            the batch (probability below 1e-12), before its release; OSError where the ledger
            can't be written, before its steps.
        """
        dirac = isinstance(canaries, (int, np.integer))
        records, candidates = records_of(data), int(canaries) if dirac else records_of(canaries)
        everyone = self.counted(records, candidates, dirac, plan)
        plan = self.plan(everyone) if plan is None else plan
        check_users(users, records, plan)
        if users is not None and not dirac:
            raise ValueError("canaries of users are Dirac canaries; accepted: a number of them")
        if (plan.dataset_size, plan.dim) != (everyone, self.dim):
            raise ValueError(
                f"plan is for {plan.dataset_size} records and {plan.dim} parameters; here are "
                f"{everyone} and {self.dim}"
            )
        for name, value in (("evaluate_every", evaluate_every),
                            ("checkpoint_every", checkpoint_every)):
            if value is not None:
                check_whole(name, value)
        if dirac and not 0 <= candidates <= self.dim:
            raise ValueError(
                f"canaries = {canaries} is outside its range [0, {self.dim} parameters]"
            )
        check_clipping(self._clipping, plan)
        header = {"plan": plan.settings(), "delta": plan.delta,
                  **clipping_settings(self._clipping, self.parameters),
                  "target": str(self.privacy), "canaries": candidates,
                  "seed": seed, "record_releases": bool(record_releases), "settings": settings}
        with contextlib.ExitStack() as stack:
            run = stack.enter_context(Run.resume(folder, header, [data, canaries]) if resume
                                      else Run.start(folder, header, [data, canaries], seed))
            coin, spread = jax.random.split(jax.random.fold_in(run.keys.model, plan.steps))
            members = np.asarray(jax.random.bits(coin, (candidates,), jnp.uint8) & 1, bool)
            places = np.asarray(
                jax.random.permutation(spread, self.dim)[: candidates if dirac else 0]
            )
            present = np.ones(records, bool)
            if not dirac:
                data = jax.tree.map(
                    lambda rows, more: np.concatenate([rows, np.asarray(more)]), data, canaries
                )
                present = np.append(present, members)
            often = max(plan.steps // 10, 1)
            told = _Told(evaluate, evaluate_every or often, checkpoint_every or often,
                         record_releases, diagnostics)
            bar = stack.enter_context(Progress(plan.steps, progress))
            trained = self._trained(run, bar, data, plan, _Planted(members, places, present), told)
            bar.close()
            if then is not None and jax.process_index() == 0:
                then(trained)
            run.finish()
            return trained

    def _trained(self, run, bar, data, plan, planted, told):
        places, dirac = planted.places, planted.members[: len(planted.places)]
        everyone = len(planted.present) + len(dirac) * plan.records_per_user
        rows, at_once = physical_batch(plan, everyone, self.mesh.size, self._microbatch)
        draw = in_sequence(Draws(plan, planted.present, rows, dirac))

        def step(state, merged, *arguments):
            one = make_step(lambda values, example, key: self._loss(merged(values), example, key),
                            self.optimizer, plan, self.mesh, self._clipping, at_once=at_once,
                            places=places)
            return one(state, *arguments)

        program: Any = jax.jit(step, donate_argnums=0)
        start = fresh_state(self.parameters, self.optimizer, plan, self._clipping, len(places))
        run.same_start((start, self._merged))
        state = run.restored(put_in_parts(start, self.mesh))
        merged = put_in_parts(self._merged, self.mesh)
        releases = run.releases(plan.steps, self.dim) if told.record else None
        split = NamedSharding(self.mesh, SPLIT)
        of_noise = run.keys.words if plan.whole_numbers else run.keys.noise
        at = first = int(state.step)
        end = at if run.history and run.history[-1].get("stop") else plan.steps
        drawn = draw(run.keys.sampling, at)
        while at < end:
            # the next one while this one is fetched
            now, drawn = drawn, draw(run.keys.sampling, at + 1)
            if now.overflow:
                raise OverflowError(
                    f"the sample of step {at} is larger than the batch of {rows}: nothing "
                    "of it was released; start a new run (this has a probability below 1e-12)"
                )
            indices = np.asarray(now.indices)
            batch = jax.tree.map(lambda leaf, i=indices: placed(np.asarray(leaf)[i], split), data)
            arguments = (state, merged, of_noise, run.keys.model, batch,
                         placed(np.asarray(now.mask), split), np.asarray(now.canaries))
            if at == first:
                lowered = program.lower(*arguments)
                run.same_program(lowered.as_text())
                program = lowered.compile()
            if at == first or at % told.checkpoint_every == 0:
                run.reserve(min((at // told.checkpoint_every + 1) * told.checkpoint_every, end))
            if at >= run.reserved:
                raise RuntimeError(f"step {at} is not counted")
            state, release, seen = program(*arguments)
            at += 1
            if releases is not None:
                releases[at - 1] = np.concatenate(
                    [np.ravel(gathered(leaf)) for leaf in jax.tree.leaves(release)]
                )
            if told.diagnostics:
                run.log(
                    "diagnostics.jsonl",
                    {"step": at, **{name: float(v) for name, v in seen._asdict().items()}},
                )
            if at % told.evaluate_every == 0 or at == end:
                numbers = (
                    {}
                    if told.evaluate is None
                    # copies: the next step uses up the parameters
                    else _numbers(told.evaluate(merged(jax.tree.map(jnp.copy, state.parameters))))
                )
                epsilon = float(plan.epsilon(at))
                run.history.append({"step": at, "epsilon": epsilon, **numbers})
                bar.tell(at, run.history[-1]["epsilon"], numbers)
                run.log("metrics.jsonl", run.history[-1])
                end = at if numbers.get("stop") else end
            bar.advance(at)
            if at % told.checkpoint_every == 0 or at == end:
                run.save(at, state, releases)
        epsilon = plan.profile(steps=run.reserved).epsilon(plan.delta)[1]
        return Trained(merged(state.parameters), self.privacy, plan, at, run.reserved,
                       epsilon, run.history, run.keys.private,
                       np.asarray(state.canaries)[: len(places)], planted.members,
                       None if releases is None else np.asarray(releases[:at]))


def records_of(data):
    """The number of records; one clear error for data that is none."""
    leaves = jax.tree.leaves_with_path(data)
    sizes = {np.shape(leaf)[:1] for _, leaf in leaves}
    if len(sizes) != 1 or sizes == {()}:
        raise ValueError(
            f"data has leading axes {sorted(sizes)}; accepted: one common leading axis"
        )
    ((size,),) = sizes
    if size == 0:
        raise ValueError("data has no records")
    for path, leaf in leaves:
        leaf, name = np.asarray(leaf), f"data{jax.tree_util.keystr(path)}"
        if not (jnp.issubdtype(leaf.dtype, jnp.number) or leaf.dtype == bool):
            raise ValueError(f"{name} is {leaf.dtype}; accepted: numbers")
        if jnp.issubdtype(leaf.dtype, jnp.inexact) and not np.isfinite(leaf).all():
            worst = int(np.argmax(~np.isfinite(leaf.reshape(size, -1)).all(1)))
            raise ValueError(f"{name} is not finite in record {worst}; accepted: finite numbers")
    return size


def _numbers(told):
    return {
        name: value if isinstance(value, bool) else float(value) for name, value in told.items()
    }
