"""The command line: `jaxpriv train`, `certify`, `calibrate`, `sweep`, `audit` and `verify`."""

import argparse
import contextlib
import io
import json
import os
import re
import signal
import sys
from pathlib import Path

from jaxpriv._flags import make_parser

_MECHANISM_FLAGS = ("noise", "sensitivity", "std", "scale", "releases", "dim")
_PIPELINE_FLAGS = ("mechanism", "with", "group")
_DP_SGD_FLAGS = ("dataset_size", "batch_size", "epochs", "noise_multiplier", "epsilon")


def _settings(arguments, names=_MECHANISM_FLAGS):
    return {name: getattr(arguments, name) for name in names
            if getattr(arguments, name, None) is not None}


def _flag(name):
    return "--" + name.replace("_", "-")


def _of_flags(arguments, message):
    """An error about a setting under the name of the flag that it came from;
    settings of a file keep theirs.
    """
    if (
        getattr(arguments, "config", None) is not None
        or getattr(arguments, "claim", None) is not None
        or getattr(arguments, "mechanism", None) is not None  # whose arguments follow --with
    ):
        return message
    names = [name for name in vars(arguments)
             if name not in ("command", "config", "claim", "scores", "out", "json")]
    # no words of a sentence: flags wherever they stand
    compound = "|".join(name for name in names if "_" in name) or "(?!)"
    leading = rf"^(?:{'|'.join(names)})(?= = | is missing| does not go with )"
    if names:
        return re.sub(rf"{leading}|\b(?:{compound})\b", lambda found: _flag(found[0]), message)
    return message


def _described(arguments):
    """("mechanism", "dp_sgd" or "pipeline", its settings, delta), from flags or from a file."""
    from jaxpriv.report.config import read_toml

    settings = _settings(arguments)
    single = _settings(arguments, _PIPELINE_FLAGS)
    dp_sgd, delta = _settings(arguments, _DP_SGD_FLAGS), arguments.delta
    given = [*settings, *dp_sgd, *single]
    if arguments.config is not None:
        if given:
            raise ValueError(f"give either a TOML file or flags, not both ({_flag(given[0])})")
        table, settings, file_delta = read_toml(arguments.config)
        delta = file_delta if delta is None else delta
    elif single:
        table, settings = "pipeline", _single(single, [*settings, *dp_sgd])
    else:
        table = "dp_sgd" if dp_sgd else "mechanism"
        _refuse_both(settings, dp_sgd)
        settings |= dp_sgd
    return table, settings, 1e-5 if delta is None else delta


def _single(flags, others):
    """The settings of a pipeline of one mechanism."""
    if "mechanism" not in flags:
        raise ValueError(f"{_flag(next(iter(flags)))} goes with --mechanism")
    if others:
        raise ValueError(
            f"{_flag(others[0])} does not go with --mechanism, whose arguments follow --with"
        )
    from jaxpriv.report.arguments import arguments_of

    given = arguments_of(flags.get("with", []))
    return {"steps": [{"mechanism": flags["mechanism"], **given}], "group": flags.get("group", 1)}


def _refuse_both(settings, dp_sgd):
    """ValueError for flags of DP-SGD beside those of a mechanism; --dim belongs to both."""
    other = [name for name in settings if name != "dim"]
    if dp_sgd and other:
        raise ValueError(f"{_flag(other[0])} does not go with DP-SGD ({_flag(next(iter(dp_sgd)))})")


def _keep_programs():
    """JAX's own cache of the programs of a training, in the user's folder."""
    import jax

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jaxpriv"

    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(cache / "xla"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _certify(arguments):
    if arguments.out is not None:
        from jaxpriv.report.plots import draw  # what is missing shows before the work

    table, settings, delta = _described(arguments)
    from jaxpriv.report import certify
    from jaxpriv.report.config import described_by

    with _busy("calibrating the noise" if table == "dp_sgd" else "reading the mechanism"):
        mechanism = described_by(table, settings, delta)
    if arguments.out is not None:
        folder = Path(arguments.out)
        folder.mkdir(parents=True, exist_ok=True)
    with _busy("computing the certificate"):
        certificate = certify(mechanism, delta)
    _show(certificate, arguments.json)
    if arguments.out is not None:
        (folder / "certificate.json").write_text(json.dumps(certificate, indent=2) + "\n")
        with _busy("drawing"):
            draw(mechanism, delta, folder / "certificate.png")
        print(
            f"wrote {folder / 'certificate.json'} and {folder / 'certificate.png'}", file=sys.stderr
        )


def _calibrate(arguments):
    settings = _settings(arguments)
    dp_sgd = _settings(arguments, ("dataset_size", "batch_size", "epochs"))
    _refuse_both(settings, dp_sgd)
    targets = _settings(arguments, ("epsilon", "delta", "advantage", "mu", "fpr", "tpr"))
    name, noise, mechanism = (_calibrated_dp_sgd if dp_sgd else _calibrated)(
        settings | dp_sgd, targets, arguments.adversary
    )
    from jaxpriv.report import certify
    from jaxpriv.report.certificate import gains_nothing

    delta = arguments.delta if arguments.delta is not None and arguments.delta < 1 else 1e-5
    with _busy("computing the certificate"):
        found = certify(mechanism, delta)
    if arguments.adversary == "relaxed" and _met_by_all(mechanism, targets):
        found["notes"].insert(0, gains_nothing("relaxed"))
    certificate = {
        "calibrated": {name: noise, "adversary": arguments.adversary, "target": targets},
        **found,
    }
    if not arguments.json:
        from jaxpriv._rounding import rounded_up

        wanted = ", ".join(f"{key} = {value:g}" for key, value in targets.items())
        print(
            f"{name} = {rounded_up(noise, 8)} meets {wanted} against the "
            f"{arguments.adversary} adversary."
        )
    _show(certificate, arguments.json)


def _calibrated(settings, targets, adversary):
    """("std" or "scale", its value, the `Mechanism`) that just meets the target."""
    from jaxpriv.accounting.privacy_target import target_of
    from jaxpriv.report.config import mechanism_from

    key = "scale" if settings.get("noise") == "laplace" else "std"
    unit = mechanism_from({**settings, key: 1.0})
    target_of(**targets)
    from jaxpriv import calibrate

    def make_curve(noise):
        rows = mechanism_from({**settings, key: noise * unit.sensitivities[0]}).adversaries()
        return (rows[0] if adversary == "worst-case" else rows[-1])[2]

    with _busy("calibrating the noise"):
        noise = calibrate(make_curve, **targets, bracket=(1e-4, 1e6)) * unit.sensitivities[0]
    return key, noise, mechanism_from({**settings, key: noise})


def _calibrated_dp_sgd(settings, targets, adversary):
    """("noise_multiplier", its value, the `DpSgd`) that just meets the target."""
    from jaxpriv.accounting.privacy_target import target_of
    from jaxpriv.report.config import threat_model_of

    for name in ("dataset_size", "batch_size", "epochs"):
        if name not in settings:
            raise ValueError(f"{name} is missing")
    target_of(**targets)
    from jaxpriv.report import DpSgd

    with _busy("calibrating the noise"):
        mechanism = DpSgd.calibrated(**targets, threat_model=threat_model_of(adversary), **settings)
    return "noise_multiplier", mechanism.noise_multiplier, mechanism


def _met_by_all(mechanism, targets):
    """Whether the worst case meets the target."""
    from jaxpriv.accounting.privacy_target import target_of

    return bool(target_of(**targets).holds(mechanism.adversaries()[0][2]))


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


def _verify(arguments):
    from jaxpriv.report.verification import read_certificate, render_verification, verify

    certificate = read_certificate(arguments.certificate)
    with _busy("computing the certificate again"):
        found = verify(certificate)
    _print(found, render_verification, arguments.json)
    return 0 if found["holds"] else 3


def _train(arguments):
    from jaxpriv.report.train_config import read_config

    config = read_config(arguments.config)
    if arguments.resume and arguments.dry_run:
        raise ValueError("--resume does not go with --dry-run")
    folder = (
        Path("runs") / Path(arguments.config).stem if arguments.out is None else Path(arguments.out)
    )
    _keep_programs()
    from jaxpriv.report.train import Job, check_same, claim
    from jaxpriv.report.training import render_training

    if arguments.resume:
        check_same(folder, config)
    elif not arguments.dry_run:
        claim(folder)
    with _busy("calibration"):
        job = Job(config)
    if arguments.dry_run:
        spent = job.spending()
        _print(spent, _sentences, arguments.json)
        return 0
    print(f"{job.plan.describe()}\nTarget: {job.privacy}.", file=sys.stderr)
    print(f"Run folder: {folder} (after Ctrl-C or a crash, --resume goes on).", file=sys.stderr)
    certificate: dict = {}

    def certify(trained):
        with _busy("audit and certificate"):
            certificate.update(job.certify(trained, folder))

    job.train(folder, arguments.resume, not arguments.json, certify)
    _print(certificate, render_training, arguments.json)
    print(f"wrote {folder / 'certificate.json'} and {folder / 'certificate.html'}", file=sys.stderr)
    return 3 if certificate["audit"] and certificate["audit"]["violated"] else 0


def _columns(configurations):
    return [[row[i] for row in configurations] for i in range(3)]


def _with_progress(rows, total):
    from rich.console import Console
    from rich.progress import track

    return track(
        rows, "configurations", total, console=Console(stderr=True), disable=not sys.stderr.isatty()
    )


@contextlib.contextmanager
def _busy(text):
    """Shows on a terminal what takes a while, and for how long it has;
    nothing where standard error is none.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    spinner = SpinnerColumn("line" if console.options.ascii_only else "dots")
    with Progress(spinner, TextColumn("{task.description}"), TimeElapsedColumn(), console=console,
                  transient=True) as bar:
        bar.add_task(text, total=None)
        yield


def _show(certificate, as_json):
    from jaxpriv.report.table import render

    _print(certificate, render, as_json)


def _sentences(report):
    from rich.console import Group

    from jaxpriv.report.terminal import Line

    return Group(*(Line(f"{name}: {value}") for name, value in report.items()))


def _print(report, render, as_json):
    if as_json:
        print(json.dumps(report, indent=2))
        return
    from jaxpriv.report.terminal import show

    show(render(report))


_COMMANDS = {"train": _train, "certify": _certify, "calibrate": _calibrate, "sweep": _sweep,
             "audit": _audit, "verify": _verify}


def main(argv=None):
    """Run the command line; returns the exit code: 0, 2 for bad input (one line on stderr),
    or 3 for a refuted claim and a certificate that does not hold.
    """
    arguments = argparse.Namespace()
    try:
        arguments = make_parser().parse_args(argv)
        code = _COMMANDS[arguments.command](arguments) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, ModuleNotFoundError, ArithmeticError, OSError, MemoryError,
            RecursionError) as error:
        told = _of_flags(arguments, str(error)) if isinstance(error, ValueError) else error
        print(f"jaxpriv: {str(told) or type(error).__name__}", file=sys.stderr)
        return 2
    return code


def _interrupted(number, frame):
    """Leave at once: an exception that travels through a running compilation can take the
    interpreter down with it.
    """
    del number, frame
    cursor = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # which progress bars hide
    print(f"{cursor}jaxpriv: interrupted", file=sys.stderr, flush=True)
    os._exit(130)


def _keep_to_ascii():
    """Where LC_ALL asks for the C locale, which Python by itself takes for UTF-8;
    no character is then an error.
    """
    asked = os.environ.get("LC_ALL") in ("C", "POSIX") and not {
        "PYTHONIOENCODING",
        "PYTHONUTF8",
    } & set(os.environ)
    for stream in (sys.stdout, sys.stderr):
        encoding = "ascii" if asked else stream.encoding
        if isinstance(stream, io.TextIOWrapper) and not encoding.lower().startswith("utf"):
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def console():
    """The `jaxpriv` command."""
    signal.signal(signal.SIGINT, _interrupted)
    _keep_to_ascii()
    sys.exit(main())
