"""The command line: `jaxpriv train`, `certify`, `calibrate`, `sweep` and `audit`."""

import argparse
import contextlib
import json
import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path

_CERTIFY_EXAMPLE = """\
examples:
  jaxpriv certify --noise gaussian --sensitivity 1 --std 2 --dim 10 --delta 1e-5
  jaxpriv certify --dataset-size 50000 --batch-size 500 --epochs 10 --noise-multiplier 1 --delta 1e-5

a TOML file instead of flags:
  [mechanism]
  noise = "gaussian"       # or "laplace", with `scale` for `std`
  sensitivity = 1.0        # or a list, one entry per release
  std = 2.0                # or a list
  releases = 1
  dim = 10
  [certificate]
  delta = 1e-5

or, for DP-SGD, in place of [mechanism]:
  [dp_sgd]
  dataset_size = 50000
  batch_size = 500         # expected: Poisson sampling
  epochs = 10
  noise_multiplier = 1.0   # or `epsilon`: the noise is calibrated
  dim = 1
"""
_CALIBRATE_EXAMPLE = """\
example:
  jaxpriv calibrate --noise gaussian --sensitivity 1 --epsilon 1 --delta 1e-5
"""


# XLA aborts the process on a flag that it does not know: only for versions in which it was tried.
_FUSION_EMITTERS_FLAG_IN = ("0.8.", "0.9.", "0.10.")


class _Parser(argparse.ArgumentParser):
    """One line on bad input, without the usage block; no abbreviated flags, which would break when flags are added."""

    def __init__(self, **settings):
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message):
        raise ValueError(message)


_SWEEP_EXAMPLE = """\
examples:
  jaxpriv sweep --noise-multiplier 0.6:2.0:100 --sampling-rate 0.01 --steps 1000,10000 --out sweep.jsonl
  jaxpriv sweep --noise-multiplier 1 --dataset-size 50000 --batch-size 250,500,1000 --epochs 10

values: one number, a list a,b,c, or a range start:stop:count (with --log in equal ratios); all combinations are computed
an --out file that is there is taken up: what it has is left out
"""


_AUDIT_EXAMPLE = """\
examples:
  jaxpriv audit scores.csv
  jaxpriv audit scores.npz --epsilon 1 --delta 1e-5 --out audit
  jaxpriv audit scores.npz --claim examples/diabetes_means.toml

scores: a .csv with columns score,member or an .npz with arrays `score` and `member`; higher means member, member is 0 or 1
exit code: 0 where no claim is refuted, 3 where one is, 2 for bad input
"""


_TRAIN_EXAMPLE = """\
examples:
  jaxpriv train --config examples/digits.toml
  jaxpriv train --config examples/digits.toml --dry-run
  jaxpriv train --config examples/digits.toml --resume

a TOML file:
  [data]
  name = "digits"            # or diabetes; fashion_mnist, cifar10, adult with folder = "..."
  [model]
  name = "cnn"               # or linear, mlp
  width = 8
  [optimizer]
  name = "sgd"               # or adam
  learning_rate = 0.5
  momentum = 0.9
  [privacy]
  epsilon = 3.0              # or mu, advantage, or fpr and tpr
  delta = 1e-5
  threat_model = "worst_case"   # or relaxed, membership: whom the target is meant for
  clip_norm = 1.0
  batch_size = 128           # expected: Poisson sampling
  epochs = 20                # or steps; one of batch size, length and noise_multiplier may be left out and is solved for
  [audit]
  canaries = 500             # none unless given
  kind = "dirac"             # or mislabelled, blank
  [run]
  seed = 0                   # not private; keys come from the operating system without it

exit code: 0, 2 for bad input, 3 where the run's own canaries refute its certificate
"""


def _parser():
    parser = _Parser(prog="jaxpriv", description="Privacy accountant: worst case and realistic case side by side.")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True, parser_class=_Parser)
    raw = argparse.RawDescriptionHelpFormatter
    train = commands.add_parser("train", help="DP-SGD from data to certificate", epilog=_TRAIN_EXAMPLE, formatter_class=raw)
    train.add_argument("--config", metavar="FILE", required=True, help="TOML file")
    train.add_argument("--out", metavar="DIR", help="run folder (default runs/NAME, from the file's name)")
    train.add_argument("--resume", action="store_true", help="go on with the run in the folder")
    train.add_argument("--dry-run", action="store_true", help="say what would be spent, and stop")
    train.add_argument("--json", action="store_true", help="print JSON instead of a table")
    certify = commands.add_parser("certify", help="certificate of a mechanism", epilog=_CERTIFY_EXAMPLE, formatter_class=raw)
    certify.add_argument("config", nargs="?", help="TOML file with a [mechanism] or [dp_sgd] table (instead of flags)")
    _add_mechanism(certify)
    _add_dp_sgd(certify)
    certify.add_argument("--delta", type=float, help="delta of the (epsilon, delta) statement (default 1e-5)")
    certify.add_argument("--json", action="store_true", help="print JSON instead of a table")
    certify.add_argument("--out", metavar="DIR", help="also write certificate.json and certificate.png there")
    calibrate = commands.add_parser("calibrate", help="noise for a target", epilog=_CALIBRATE_EXAMPLE, formatter_class=raw)
    _add_mechanism(calibrate, noise_scale=False)
    calibrate.add_argument("--adversary", choices=("worst-case", "relaxed"), default="worst-case",
                           help="whom the target is meant for (default worst-case)")
    for name in ("epsilon", "delta", "advantage", "mu", "fpr", "tpr"):
        calibrate.add_argument(f"--{name}", type=float)
    calibrate.add_argument("--json", action="store_true", help="print JSON instead of a table")
    sweep = commands.add_parser("sweep", help="DP-SGD over ranges", epilog=_SWEEP_EXAMPLE, formatter_class=raw)
    for name, text in (("noise-multiplier", "noise standard deviation over the clipping norm"),
                       ("sampling-rate", "probability that a record takes part in a step"), ("steps", "number of steps"),
                       ("dataset-size", "number of records; with --batch-size and --epochs instead of rate and steps"),
                       ("batch-size", "expected number of records in a batch"), ("epochs", "passes over the data")):
        sweep.add_argument(f"--{name}", metavar="VALUES", help=text)
    sweep.add_argument("--log", action="store_true", help="ranges in equal ratios")
    sweep.add_argument("--delta", type=float, default=1e-5, help="delta of the (epsilon, delta) statement (default 1e-5)")
    sweep.add_argument("--relaxed", action="store_true", help="also the numbers of the relaxed adversary")
    sweep.add_argument("--dim", type=int, help="dimension of the gradient, for the relaxed adversary (default 1)")
    sweep.add_argument("--out", metavar="FILE", help="write JSON lines there instead of to stdout")
    audit = commands.add_parser("audit", help="what scores of an attack prove", epilog=_AUDIT_EXAMPLE, formatter_class=raw)
    audit.add_argument("scores", help="file with one score per round or record")
    audit.add_argument("--claim", metavar="FILE", help="TOML file as `certify` takes it: the mechanism that was attacked")
    audit.add_argument("--mu", type=float, help="claimed Gaussian differential privacy")
    audit.add_argument("--epsilon", type=float, help="claimed epsilon at delta")
    audit.add_argument("--delta", type=float, help="delta of the claim and of the lower bound (default 1e-5)")
    audit.add_argument("--confidence", type=float, default=0.95, help="of everything that is said (default 0.95)")
    audit.add_argument("--json", action="store_true", help="print JSON instead of a table")
    audit.add_argument("--out", metavar="DIR", help="also write audit.json and audit.png there")
    return parser


def _add_mechanism(parser, noise_scale=True):
    parser.add_argument("--noise", choices=("gaussian", "laplace"), help="noise (default gaussian)")
    parser.add_argument("--sensitivity", type=float, help="effect of one record: L2 for gaussian, L1 for laplace")
    if noise_scale:
        parser.add_argument("--std", type=float, help="standard deviation of gaussian noise")
        parser.add_argument("--scale", type=float, help="scale b of laplace noise")
    parser.add_argument("--releases", type=int, help="number of equal releases (default 1)")
    parser.add_argument("--dim", type=int, help="dimension that a record can move (default 1)")


def _add_dp_sgd(parser):
    group = parser.add_argument_group("DP-SGD", "Poisson sampling at rate batch size/dataset size; add/remove one record")
    group.add_argument("--dataset-size", type=int, help="number of records")
    group.add_argument("--batch-size", type=float, help="expected number of records in a batch")
    group.add_argument("--epochs", type=float, help="passes over the data")
    group.add_argument("--noise-multiplier", type=float, help="noise standard deviation over the clipping norm")
    group.add_argument("--epsilon", type=float, help="instead of --noise-multiplier: the noise that meets (epsilon, delta)")


_MECHANISM_FLAGS = ("noise", "sensitivity", "std", "scale", "releases", "dim")
_DP_SGD_FLAGS = ("dataset_size", "batch_size", "epochs", "noise_multiplier", "epsilon")


def _settings(arguments, names=_MECHANISM_FLAGS):
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name, None) is not None}


def _flag(name):
    return "--" + name.replace("_", "-")


def _described(arguments):
    """("mechanism" or "dp_sgd", its settings, delta), from flags or from a file."""
    from jaxpriv.report.config import read_toml

    settings, dp_sgd, delta = _settings(arguments), _settings(arguments, _DP_SGD_FLAGS), arguments.delta
    given = [*settings, *dp_sgd]
    if arguments.config is not None:
        if given:
            raise ValueError(f"give either a TOML file or flags, not both ({_flag(given[0])})")
        table, settings, file_delta = read_toml(arguments.config)
        delta = file_delta if delta is None else delta
    else:
        table = "dp_sgd" if dp_sgd else "mechanism"
        other = [name for name in settings if name != "dim"]
        if dp_sgd and other:
            raise ValueError(f"{_flag(other[0])} does not go with DP-SGD ({_flag(next(iter(dp_sgd)))})")
        settings |= dp_sgd
    return table, settings, 1e-5 if delta is None else delta


def _cache():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jaxpriv"


def _run(jobs):
    from jaxpriv.report import programs

    return programs.run(_cache() / "programs", jobs)


def compile_fast():
    """Tell XLA, before it starts, to leave out what takes it most of the time; what is computed stays the same."""
    flags = os.environ.get("XLA_FLAGS", "")
    if version("jaxlib").startswith(_FUSION_EMITTERS_FLAG_IN) and "fusion_emitters" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_use_fusion_emitters=false"  # three times slower to compile than without


def _configure_jax(run_once=True):
    """float64; programs kept between calls; where they run once on a few numbers, in closed form, compiled fast."""
    if run_once:
        compile_fast()
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", run_once)
    _keep_programs()


def _keep_programs():
    """JAX's own cache, in the user's folder."""
    import jax

    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(_cache() / "xla"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _certify(arguments):
    if arguments.out is not None:
        from jaxpriv.report.plots import draw  # what is missing shows before the work

    table, settings, delta = _described(arguments)
    _configure_jax(run_once=table == "mechanism")  # the loops of compositions take seven times longer if compiled fast
    from jaxpriv.report import certify
    from jaxpriv.report.config import dp_sgd_from, mechanism_from

    mechanism = dp_sgd_from(settings, delta) if table == "dp_sgd" else mechanism_from(settings)
    if arguments.out is not None:
        folder = Path(arguments.out)
        folder.mkdir(parents=True, exist_ok=True)
    certificate = certify(mechanism, delta, _run)
    _show(certificate, arguments.json)
    if arguments.out is not None:
        (folder / "certificate.json").write_text(json.dumps(certificate, indent=2) + "\n")
        draw(mechanism, delta, folder / "certificate.png", _run)
        print(f"wrote {folder / 'certificate.json'} and {folder / 'certificate.png'}", file=sys.stderr)


def _calibrate(arguments):
    from jaxpriv.report.config import mechanism_from

    settings = _settings(arguments)
    laplace = settings.get("noise") == "laplace"
    key = "scale" if laplace else "std"
    unit = mechanism_from({**settings, key: 1.0})
    targets = {name: getattr(arguments, name) for name in ("epsilon", "delta", "advantage", "mu", "fpr", "tpr")}

    _configure_jax()
    from jaxpriv import calibrate
    from jaxpriv.report import certify

    def make_curve(noise):
        rows = mechanism_from({**settings, key: noise * unit.sensitivities[0]}).adversaries()
        return (rows[0] if arguments.adversary == "worst-case" else rows[-1])[2]

    noise = calibrate(make_curve, **targets, bracket=(1e-4, 1e6)) * unit.sensitivities[0]
    mechanism = mechanism_from({**settings, key: noise})
    delta = arguments.delta if arguments.delta is not None and arguments.delta < 1 else 1e-5
    certificate = {"calibrated": {key: noise, "adversary": arguments.adversary,
                                  "target": {k: v for k, v in targets.items() if v is not None}},
                   **certify(mechanism, delta, _run)}
    if not arguments.json:
        from jaxpriv.report.table import rounded_up

        wanted = ", ".join(f"{k} = {v:g}" for k, v in certificate["calibrated"]["target"].items())
        print(f"{key} = {rounded_up(noise, 8)} meets {wanted} against the {arguments.adversary} adversary.")
    _show(certificate, arguments.json)


def _wanted(arguments):
    """The configurations of a sweep."""
    from jaxpriv.report.ranges import configurations

    names = ("noise_multiplier", "sampling_rate", "steps", "dataset_size", "batch_size", "epochs")
    return configurations(_settings(arguments, names), arguments.log)


def _sweep(arguments):
    from jaxpriv.report.ranges import take_up

    if arguments.dim is not None and not arguments.relaxed:
        raise ValueError("--dim goes with --relaxed")
    wanted = _wanted(arguments)
    dim = (1 if arguments.dim is None else arguments.dim) if arguments.relaxed else None
    _configure_jax(run_once=False)
    from jaxpriv.report.sweep import check, sweep

    noises, rates, steps = _columns(wanted)
    check(noises, rates, steps, arguments.delta, dim)
    with contextlib.ExitStack() as stack:
        out, done = sys.stdout, set()
        if arguments.out is not None:
            done = take_up(Path(arguments.out), arguments.delta, dim)
            out = stack.enter_context(open(arguments.out, "a"))
        missing = [configuration for configuration in wanted if configuration not in done]
        noises, rates, steps = _columns(missing)
        for row in _with_progress(sweep(noises, rates, steps, arguments.delta, dim), len(missing)):
            print(json.dumps(row), file=out, flush=True)


def _audit(arguments):
    if arguments.out is not None:
        from jaxpriv.report.plots import draw_roc  # what is missing shows before the work

    _configure_jax(run_once=False)
    from jaxpriv.report.audit import audit_report, claims_from, read_scores, render_audit

    claims, delta = claims_from(arguments.claim, arguments.mu, arguments.epsilon, arguments.delta)
    scores, member = read_scores(arguments.scores)
    report = audit_report(scores, member, claims, delta, arguments.confidence)
    _print(report, render_audit, arguments.json)
    if arguments.out is not None:
        folder = Path(arguments.out)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "audit.json").write_text(json.dumps(report, indent=2) + "\n")
        draw_roc(scores, member, claims, folder / "audit.png", arguments.confidence)
        print(f"wrote {folder / 'audit.json'} and {folder / 'audit.png'}", file=sys.stderr)
    return 3 if any(claim["violated"] for claim in report["claims"]) else 0


def _train(arguments):
    from jaxpriv.report.train_config import read_config

    config = read_config(arguments.config)
    if arguments.resume and arguments.dry_run:
        raise ValueError("--resume does not go with --dry-run")
    folder = Path("runs") / Path(arguments.config).stem if arguments.out is None else Path(arguments.out)
    _keep_programs()
    from jaxpriv.report.train import Job, check_same, claim
    from jaxpriv.report.training import render_training

    if arguments.resume:
        check_same(folder, config)
    elif not arguments.dry_run:
        claim(folder)
    job = Job(config)
    print(f"{job.plan.describe()}\nTarget: {job.privacy}.", file=sys.stderr)
    if arguments.dry_run:
        spent = job.spending()
        _print(spent, lambda spent: "\n".join(f"{name}: {value}" for name, value in spent.items()), arguments.json)
        return 0
    certificate = job.run(folder, arguments.resume, progress=not arguments.json)
    _print(certificate, render_training, arguments.json)
    print(f"wrote {folder / 'certificate.json'} and {folder / 'certificate.html'}", file=sys.stderr)
    return 3 if certificate["audit"] and certificate["audit"]["violated"] else 0


def _columns(configurations):
    return [[row[i] for row in configurations] for i in range(3)]


def _with_progress(rows, total):
    from rich.console import Console
    from rich.progress import track

    return track(rows, "configurations", total, console=Console(stderr=True), disable=not sys.stderr.isatty())


def _show(certificate, as_json):
    from jaxpriv.report.table import render

    _print(certificate, render, as_json)


def _print(report, render, as_json):
    if as_json:
        print(json.dumps(report, indent=2))
        return
    from rich.console import Console

    Console(highlight=False).print(render(report))


_COMMANDS = {"train": _train, "certify": _certify, "calibrate": _calibrate, "sweep": _sweep, "audit": _audit}


def main(argv=None):
    """Run the command line; returns the exit code: 0, 2 for bad input (one line on stderr), or 3 for a refuted claim."""
    try:
        arguments = _parser().parse_args(argv)
        code = _COMMANDS[arguments.command](arguments) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, ModuleNotFoundError, OverflowError, OSError) as error:
        print(f"jaxpriv: {error}", file=sys.stderr)
        return 2
    return code


def _interrupted(number, frame):
    """Leave at once: an exception that travels through a running compilation can take the interpreter down with it."""
    del number, frame
    print("jaxpriv: interrupted", file=sys.stderr, flush=True)
    os._exit(130)


def console():
    """The `jaxpriv` command."""
    signal.signal(signal.SIGINT, _interrupted)
    sys.exit(main())
