"""The command line: `jaxpriv train`, `certify`, `calibrate`, `sweep`, `audit`, `verify` and
`completion`."""

import argparse
import io
import json
import os
import signal
import sys
from pathlib import Path

from jaxpriv._commands.calibrate import calibrate
from jaxpriv._commands.completion import completion
from jaxpriv._commands.described import claimed, described, of_flags
from jaxpriv._commands.shown import (
    busy,
    print_certificate,
    print_error,
    print_report,
)
from jaxpriv._commands.sweep import sweep
from jaxpriv._flags import make_parser


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

    table, settings, delta = described(arguments)
    delta = 1e-5 if delta is None else delta
    from jaxpriv.report import certify
    from jaxpriv.report.config import described_by

    with busy("calibrating the noise" if table == "dp_sgd" else "reading the mechanism"):
        mechanism = described_by(table, settings, delta)
    if arguments.out is not None:
        folder = Path(arguments.out)
        folder.mkdir(parents=True, exist_ok=True)
    with busy("computing the certificate"):
        certificate = certify(mechanism, delta)
    print_certificate(certificate, arguments.json)
    if arguments.out is not None:
        from jaxpriv.report.page import write_certificate

        write_certificate(certificate, folder)
        with busy("drawing"):
            draw(mechanism, delta, folder / "certificate.png")
        print(f"wrote certificate.html, .json, .md and .png to {folder}", file=sys.stderr)


def _audit(arguments):
    if arguments.out is not None:
        from jaxpriv.report.plots import draw_roc  # what is missing shows before the work

    from jaxpriv.report.audit import audit_report, claims_from, read_scores, render_audit

    claims, delta = claims_from(
        claimed(arguments), arguments.mu, arguments.epsilon, arguments.delta
    )
    scores, member = read_scores(arguments.scores)
    report = audit_report(scores, member, claims, delta, arguments.confidence)
    print_report(report, render_audit, arguments.json)
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
    with busy("computing the certificate again"):
        found = verify(certificate)
    print_report(found, render_verification, arguments.json)
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
    from jaxpriv.report.train_selection import SelectionJob
    from jaxpriv.report.training import render_training

    selects = config["selection"]["tries"] is not None
    if arguments.resume:
        if not selects:
            check_same(folder, config)
    elif not arguments.dry_run:
        claim(folder)
    with busy("calibration"):
        job = SelectionJob(config) if selects else Job(config)
    if arguments.dry_run:
        spent = job.spending()
        print_report(spent, _sentences, arguments.json)
        return 0
    print(job.told(), file=sys.stderr)
    print(f"Run folder: {folder} (after Ctrl-C or a crash, --resume goes on).", file=sys.stderr)
    certificate: dict = {}

    def certify(trained):
        with busy("audit and certificate"):
            certificate.update(job.certify(trained, folder))

    job.train(folder, arguments.resume, not arguments.json, certify)
    if "adversaries" not in certificate:  # of a selection among no trainings
        print_report(certificate, _sentences, arguments.json)
        return 0
    print_report(certificate, render_training, arguments.json)
    print(f"wrote certificate.html, .json and .md to {folder}", file=sys.stderr)
    return 3 if certificate["audit"] and certificate["audit"]["violated"] else 0


def _sentences(report):
    from rich.console import Group

    from jaxpriv.report.terminal import Line

    return Group(*(Line(f"{name}: {value}") for name, value in report.items()))


_COMMANDS = {"train": _train, "certify": _certify, "calibrate": calibrate, "sweep": sweep,
             "audit": _audit, "verify": _verify, "completion": completion}


def main(argv=None):
    """Run the command line; returns the exit code: 0, 2 for bad input (one line on stderr,
    with --json an object on stdout), or 3 for a refuted claim and a certificate that does not hold.
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
        told = of_flags(arguments, str(error)) if isinstance(error, ValueError) else str(error)
        print_error(told or type(error).__name__, type(error).__name__, _wants_json(argv))
        return 2
    return code


def _wants_json(argv):
    """Whether errors are JSON, also those about the flags themselves."""
    return "--json" in (sys.argv[1:] if argv is None else argv)


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
