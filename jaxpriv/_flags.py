"""What the command line takes: its commands, their flags and the help that `--help` prints."""

import argparse
from importlib.metadata import version

CERTIFY_EXAMPLE = """\
examples:
  jaxpriv certify --noise gaussian --sensitivity 1 --std 2 --dim 10 --delta 1e-5
  jaxpriv certify --dataset-size 50000 --batch-size 500 --epochs 10 --noise-multiplier 1 \
--delta 1e-5
  jaxpriv certify --mechanism random_allocation --with noise_multiplier=1 steps=1000

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
  threat_model = "worst_case"   # or "relaxed": whom `epsilon` is meant for
  dim = 1

or, in place of both, mechanisms of jaxpriv.worst_case by the names of their arguments, composed:
  group = 1                # records (users) that are protected together
  [[pipeline]]
  mechanism = "user_level"
  noise_multiplier = 2.0
  sampling_rate = 0.01
  steps = 1000
  records_per_user = 4
  [[pipeline]]
  mechanism = "laplace"
  ratio = 0.1              # sensitivity to a whole user over scale
  times = 3                # composed with itself
"""
CALIBRATE_EXAMPLE = """\
examples:
  jaxpriv calibrate --noise gaussian --sensitivity 1 --epsilon 1 --delta 1e-5
  jaxpriv calibrate --dataset-size 50000 --batch-size 500 --epochs 10 --epsilon 2 --delta 1e-5
  jaxpriv calibrate --dataset-size 50000 --batch-size 500 --epochs 10 --advantage 0.1

  jaxpriv calibrate --mechanism user_level --with noise_multiplier=find sampling_rate=0.01 \
steps=1000 records_per_user=4 --epsilon 2 --delta 1e-5
  jaxpriv calibrate pipeline.toml --epsilon 2

one target: --epsilon with --delta, or --mu, or --advantage, or --fpr with --tpr

what is found: std, scale or noise_multiplier of the flags and of a file with [mechanism] or \
[dp_sgd], which leaves it
out; of --mechanism and [[pipeline]] the one argument that is "find": noise_multiplier, sigma, \
scale, sampling_rate, mu,
ratio, epsilon, or the last whole number of steps, epochs, times, records_per_user
"""
SWEEP_EXAMPLE = """\
examples:
  jaxpriv sweep --noise-multiplier 0.6:2.0:100 --sampling-rate 0.01 --steps 1000,10000 \
--out sweep.jsonl
  jaxpriv sweep --noise-multiplier 1 --dataset-size 50000 --batch-size 250,500,1000 --epochs 10

  jaxpriv sweep --mechanism user_level --with noise_multiplier=1:4:7 sampling_rate=0.01 steps=1000 \
records_per_user=1,2,4
  jaxpriv sweep pipeline.toml --out sweep.jsonl --plot sweep.png

values: one number, a list a,b,c, or a range start:stop:count (with --log in equal ratios); \
all combinations are computed
in a file: texts "a,b,c" and "start:stop:count"; in [[pipeline]] lists as well
an --out file that is there is taken up: what it has is left out
"""
AUDIT_EXAMPLE = """\
examples:
  jaxpriv audit scores.csv
  jaxpriv audit scores.npz --epsilon 1 --delta 1e-5 --out audit
  jaxpriv audit scores.npz --claim examples/diabetes_means.toml
  jaxpriv audit scores.npz --mechanism subsampled_gaussian --with noise_multiplier=1 \
sampling_rate=0.01 steps=1000

scores: a .csv with columns score,member (or separated by ; or tabs) or an .npz with arrays \
`score` and `member`;
higher means member, member is 0 or 1, numbers have a decimal point
exit code: 0 where no claim is refuted, 3 where one is, 2 for bad input
"""
VERIFY_EXAMPLE = """\
examples:
  jaxpriv verify certificate/certificate.json
  jaxpriv verify runs/digits/certificate.json --json

certificate: what `certify --out` and `train` write
exit code: 0 where every number holds, 3 where one does not, 2 for bad input
"""
TRAIN_EXAMPLE = """\
examples:
  jaxpriv train --config examples/digits.toml
  jaxpriv train --config examples/digits.toml --dry-run
  jaxpriv train --config examples/digits.toml --resume

a TOML file:
  [data]
  name = "digits"            # or diabetes (is the progression above 140?); fashion_mnist, \
cifar10, adult with folder = "..."
  users = "users.txt"        # a line for each training record: whose it is; none unless given
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
  epochs = 20                # or steps; one of batch size, length and noise_multiplier may \
be left out and is solved for
  records_per_user = 4       # with users, who are protected as a whole: more are left out
  noise_schedule = [1.2, 1]  # factors of the noise, each for an equal share of the steps; \
none unless given
  [audit]
  canaries = 500             # none unless given
  kind = "dirac"             # or mislabelled, blank
  confidence = 0.95          # of what they prove; an honest run may be refuted 1 time in 20
  [run]                      # all of it may be left out
  seed = 0                   # not private; keys come from the operating system without it
  microbatch = 64            # records whose gradients are in memory at once; all unless given
  checkpoint_every = 50      # steps; a tenth of all unless given, as of evaluations
  evaluate_every = 50
  record_releases = false    # keep every noisy gradient, for attacks on them
  diagnostics = false        # loss and share of clipped gradients of every batch: not private

exit code: 0, 2 for bad input, 3 where the run's own canaries refute its certificate

to train a random number of times and tell the best alone, without [audit]:
  [selection]
  tries = "geometric"        # or logarithmic, poisson, negative_binomial with eta = ...
  mean = 10                  # of the number of trainings; epsilon is that of the selection
  [selection.candidates]     # each training draws one of all combinations; the best is the most \
accurate on held-out records
  learning_rate = [0.1, 0.5] # and momentum, width, clip_norm, batch_size, epochs, steps
  clip_norm = [0.5, 1.0]
"""


COMPLETION_EXAMPLE = """\
examples:
  jaxpriv completion bash > ~/.local/share/bash-completion/completions/jaxpriv
  jaxpriv completion zsh > ~/.zfunc/_jaxpriv      # a folder of $fpath
  jaxpriv completion fish > ~/.config/fish/completions/jaxpriv.fish
"""


class _Parser(argparse.ArgumentParser):
    """One line on bad input, without the usage block; no abbreviated flags,
    which would break when flags are added.
    """

    def __init__(self, **settings):
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message):
        raise ValueError(message)


def make_parser():
    """The parser of `jaxpriv`; bad input is a ValueError."""
    parser = _Parser(prog="jaxpriv",
                     description="Privacy accountant: worst case and realistic case side by side.")
    parser.add_argument("--version", action="version", version=f"jaxpriv {version('jaxpriv')}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True,
                                     parser_class=_Parser)
    raw = argparse.RawDescriptionHelpFormatter
    train = commands.add_parser("train", help="DP-SGD from data to certificate",
                                epilog=TRAIN_EXAMPLE, formatter_class=raw)
    train.add_argument("--config", metavar="FILE", required=True, help="TOML file")
    train.add_argument("--out", metavar="DIR",
                       help="run folder (default runs/NAME, from the file's name)")
    train.add_argument("--resume", action="store_true", help="go on with the run in the folder")
    train.add_argument("--dry-run", action="store_true", help="say what would be spent, and stop")
    train.add_argument("--json", action="store_true", help="print JSON instead of a table")
    certify = commands.add_parser("certify", help="certificate of a mechanism",
                                  epilog=CERTIFY_EXAMPLE, formatter_class=raw)
    certify.add_argument("config", nargs="?",
                         help="TOML file with a [mechanism] or [dp_sgd] table or [[pipeline]] "
                              "tables (instead of flags)")
    _add_mechanism(certify)
    _add_dp_sgd(certify)
    _add_pipeline(certify)
    certify.add_argument("--delta", type=float,
                         help="delta of the (epsilon, delta) statement (default 1e-5)")
    certify.add_argument("--json", action="store_true", help="print JSON instead of a table")
    certify.add_argument("--out", metavar="DIR",
                         help="also write certificate.html (the page), .json, .md (for a model "
                              "card) and .png (the curves) there")
    calibrate = commands.add_parser("calibrate",
                                    help="noise, or another number, for a privacy target",
                                    epilog=CALIBRATE_EXAMPLE, formatter_class=raw)
    calibrate.add_argument("config", nargs="?",
                           help="TOML file as `certify` takes it, with one number left open")
    _add_mechanism(calibrate, noise_scale=False)
    _add_dp_sgd(calibrate, noise=False)
    _add_pipeline(calibrate)
    calibrate.add_argument("--adversary", type=lambda text: text.replace("_", "-"),
                           choices=("worst-case", "relaxed"), default="worst-case",
                           help="whom the target is meant for (default worst-case)")
    for name, text in (("epsilon", "target: epsilon at --delta"),
                       ("delta", "of --epsilon, and of the certificate (default: the file's)"),
                       ("advantage", "target: the largest TPR - FPR of any test"),
                       ("mu", "target: mu of Gaussian differential privacy"),
                       ("fpr", "with --tpr: the false positive rate of the target"),
                       ("tpr", "with --fpr: the largest true positive rate there")):
        calibrate.add_argument(f"--{name}", type=float, help=text)
    calibrate.add_argument("--json", action="store_true", help="print JSON instead of a table")
    sweep = commands.add_parser("sweep", help="a mechanism over ranges", epilog=SWEEP_EXAMPLE,
                                formatter_class=raw)
    sweep.add_argument("config", nargs="?",
                       help="TOML file as `certify` takes it, with values to sweep over")
    sweep.add_argument("--noise", choices=("gaussian", "laplace"), help="noise (default gaussian)")
    for name, text in (("noise-multiplier", "noise standard deviation over the clipping norm"),
                       ("sampling-rate", "probability that a record takes part in a step"),
                       ("steps", "number of steps"),
                       ("dataset-size", "number of records; with --batch-size and --epochs "
                                        "instead of rate and steps"),
                       ("batch-size", "expected number of records in a batch"),
                       ("epochs", "passes over the data"),
                       ("sensitivity", "without DP-SGD: effect of one record"),
                       ("std", "standard deviation of gaussian noise"),
                       ("scale", "scale b of laplace noise"),
                       ("releases", "number of equal releases (default 1)")):
        sweep.add_argument(f"--{name}", metavar="VALUES", help=text)
    _add_pipeline(sweep)
    sweep.add_argument("--log", action="store_true", help="ranges in equal ratios")
    sweep.add_argument("--delta", type=float,
                       help="delta of the (epsilon, delta) statement (default 1e-5)")
    sweep.add_argument("--relaxed", action="store_true",
                       help="also the numbers of the relaxed adversary")
    sweep.add_argument("--dim", type=int,
                       help="dimension of the gradient, for the relaxed adversary (default 1)")
    sweep.add_argument("--out", metavar="FILE", help="write JSON lines there instead of to stdout")
    sweep.add_argument("--distributed", action="store_true",
                       help="one of several processes (SLURM, Kubernetes, MPI): each computes a "
                            "share, and --out is one file in the end")
    sweep.add_argument("--plot", metavar="FILE.png",
                       help="draw epsilon over the one or two quantities that are swept")
    sweep.add_argument("--json", action="store_true",
                       help="errors as JSON, too (the rows are JSON anyway)")
    audit = commands.add_parser("audit", help="what scores of an attack prove",
                                epilog=AUDIT_EXAMPLE, formatter_class=raw)
    audit.add_argument("scores", help="file with one score per round or record")
    audit.add_argument("--claim", metavar="FILE", dest="config",
                       help="TOML file as `certify` takes it: the mechanism that was attacked, "
                            "which flags can describe as well")
    _add_mechanism(audit)
    _add_dp_sgd(audit, target=False)
    _add_pipeline(audit)
    audit.add_argument("--mu", type=float, help="claimed Gaussian differential privacy")
    audit.add_argument("--epsilon", type=float, help="claimed epsilon at delta")
    audit.add_argument("--delta", type=float,
                       help="delta of the claim and of the lower bound (default 1e-5)")
    audit.add_argument("--confidence", type=float, default=0.95,
                       help="of everything that is said (default 0.95)")
    audit.add_argument("--json", action="store_true", help="print JSON instead of a table")
    audit.add_argument("--out", metavar="DIR", help="also write audit.json and audit.png there")

    verified = commands.add_parser("verify", help="compute a certificate's numbers again",
                                   epilog=VERIFY_EXAMPLE, formatter_class=raw)
    verified.add_argument("certificate", help="JSON file")
    verified.add_argument("--json", action="store_true", help="print JSON instead of a table")
    completion = commands.add_parser("completion", help="script that completes flags in a shell",
                                     epilog=COMPLETION_EXAMPLE, formatter_class=raw)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    return parser


def _add_mechanism(parser, noise_scale=True):
    parser.add_argument("--noise", choices=("gaussian", "laplace"), help="noise (default gaussian)")
    parser.add_argument("--sensitivity", type=float,
                        help="effect of one record: L2 for gaussian, L1 for laplace")
    if noise_scale:
        parser.add_argument("--std", type=float, help="standard deviation of gaussian noise")
        parser.add_argument("--scale", type=float, help="scale b of laplace noise")
    parser.add_argument("--releases", type=int, help="number of equal releases (default 1)")
    parser.add_argument("--dim", type=int, help="dimension that a record can move (default 1)")


def _add_pipeline(parser):
    group = parser.add_argument_group(
        "any mechanism", "of jaxpriv.worst_case; several of them in a file"
    )
    group.add_argument("--mechanism", metavar="NAME",
                       help="gaussian, laplace, randomized_response, approximate_dp, "
                            "subsampled_gaussian, gaussian_mixture, user_level, random_allocation, "
                            "shuffled_gaussian, ...")
    group.add_argument("--with", nargs="+", metavar="NAME=VALUE",
                       help="its arguments: numbers, lists a,b,c or words; times=N composes it")
    group.add_argument("--group", type=int, metavar="K",
                       help="records (users) that are protected together (default 1)")


def _add_dp_sgd(parser, noise=True, target=True):
    group = parser.add_argument_group(
        "DP-SGD", "Poisson sampling at rate batch size/dataset size; add/remove one record"
    )
    group.add_argument("--dataset-size", type=int, help="number of records")
    group.add_argument("--batch-size", type=float, help="expected number of records in a batch")
    group.add_argument("--epochs", type=float, help="passes over the data")
    if noise:
        group.add_argument("--noise-multiplier", type=float,
                           help="noise standard deviation over the clipping norm")
    if noise and target:
        group.add_argument("--epsilon", type=float,
                           help="instead of --noise-multiplier: "
                                "the noise that meets (epsilon, delta)")
