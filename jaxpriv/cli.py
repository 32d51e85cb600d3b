"""The command line: `jaxpriv certify` and `jaxpriv calibrate`."""

import argparse
import json
import os
import signal
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

_CERTIFY_EXAMPLE = """\
example:
  jaxpriv certify --noise gaussian --sensitivity 1 --std 2 --dim 10 --delta 1e-5

a TOML file instead of flags:
  [mechanism]
  noise = "gaussian"       # or "laplace", with `scale` for `std`
  sensitivity = 1.0        # or a list, one entry per release
  std = 2.0                # or a list
  releases = 1
  dim = 10
  [certificate]
  delta = 1e-5
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


def _parser():
    parser = _Parser(prog="jaxpriv", description="Privacy accountant: worst case and realistic case side by side.")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True, parser_class=_Parser)
    raw = argparse.RawDescriptionHelpFormatter
    certify = commands.add_parser("certify", help="certificate of a mechanism", epilog=_CERTIFY_EXAMPLE, formatter_class=raw)
    certify.add_argument("config", nargs="?", help="TOML file with a [mechanism] table (instead of the flags below)")
    _add_mechanism(certify)
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
    return parser


def _add_mechanism(parser, noise_scale=True):
    parser.add_argument("--noise", choices=("gaussian", "laplace"), help="noise (default gaussian)")
    parser.add_argument("--sensitivity", type=float, help="effect of one record: L2 for gaussian, L1 for laplace")
    if noise_scale:
        parser.add_argument("--std", type=float, help="standard deviation of gaussian noise")
        parser.add_argument("--scale", type=float, help="scale b of laplace noise")
    parser.add_argument("--releases", type=int, help="number of equal releases (default 1)")
    parser.add_argument("--dim", type=int, help="dimension that a record can move (default 1)")


def _settings(arguments):
    names = ("noise", "sensitivity", "std", "scale", "releases", "dim")
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name, None) is not None}


def _cache():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jaxpriv"


def _certificate(mechanism, delta):
    from jaxpriv.report import certify, programs

    return certify(mechanism, delta, partial(programs.run, _cache() / "programs"))


def _configure_jax():
    """float64; programs compiled fast, for they run once on a few numbers; and kept between calls."""
    flags = os.environ.get("XLA_FLAGS", "")
    if version("jaxlib").startswith(_FUSION_EMITTERS_FLAG_IN) and "fusion_emitters" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_use_fusion_emitters=false"  # three times slower to compile than without
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", True)
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(_cache() / "xla"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _certify(arguments):
    from jaxpriv.report.config import mechanism_from, read_toml

    flags = _settings(arguments)
    delta = arguments.delta
    if arguments.config is not None:
        if flags:
            raise ValueError(f"give either a TOML file or flags, not both (--{next(iter(flags))})")
        flags, file_delta = read_toml(arguments.config)
        delta = file_delta if delta is None else delta
    mechanism = mechanism_from(flags)
    if arguments.out is not None:
        from jaxpriv.report.plots import draw  # what is missing shows before the work

        folder = Path(arguments.out)
        folder.mkdir(parents=True, exist_ok=True)

    _configure_jax()
    delta = 1e-5 if delta is None else delta
    certificate = _certificate(mechanism, delta)
    _show(certificate, arguments.json)
    if arguments.out is not None:
        (folder / "certificate.json").write_text(json.dumps(certificate, indent=2) + "\n")
        draw(mechanism, delta, folder / "certificate.png")
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

    def make_curve(noise):
        rows = mechanism_from({**settings, key: noise * unit.sensitivities[0]}).adversaries()
        return (rows[0] if arguments.adversary == "worst-case" else rows[-1])[2]

    noise = calibrate(make_curve, **targets, bracket=(1e-4, 1e6)) * unit.sensitivities[0]
    mechanism = mechanism_from({**settings, key: noise})
    delta = arguments.delta if arguments.delta is not None and arguments.delta < 1 else 1e-5
    certificate = {"calibrated": {key: noise, "adversary": arguments.adversary,
                                  "target": {k: v for k, v in targets.items() if v is not None}},
                   **_certificate(mechanism, delta)}
    if not arguments.json:
        from jaxpriv.report.table import rounded_up

        wanted = ", ".join(f"{k} = {v:g}" for k, v in certificate["calibrated"]["target"].items())
        print(f"{key} = {rounded_up(noise, 8)} meets {wanted} against the {arguments.adversary} adversary.")
    _show(certificate, arguments.json)


def _show(certificate, as_json):
    if as_json:
        print(json.dumps(certificate, indent=2))
        return
    from rich.console import Console

    from jaxpriv.report.table import render

    Console(highlight=False).print(render(certificate))


def main(argv=None):
    """Run the command line; returns the exit code: 0, or 2 for bad input (one line on stderr)."""
    try:
        arguments = _parser().parse_args(argv)
        {"certify": _certify, "calibrate": _calibrate}[arguments.command](arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, ModuleNotFoundError, OSError) as error:
        print(f"jaxpriv: {error}", file=sys.stderr)
        return 2
    return 0


def _interrupted(number, frame):
    """Leave at once: an exception that travels through a running compilation can take the interpreter down with it."""
    del number, frame
    print("jaxpriv: interrupted", file=sys.stderr, flush=True)
    os._exit(130)


def console():
    """The `jaxpriv` command."""
    signal.signal(signal.SIGINT, _interrupted)
    sys.exit(main())
