"""Settings, brackets and verdicts together.

    python -m tests.adversary.campaign --seed 1 --settings 2000 --family dp_sgd mixed \\
        --mode eager jit32 --out found.jsonl

prints a table and appends every violation as one JSON line (seed, mode, setting,
bracket, what is wrong).
"""

import argparse
import collections
import itertools
import json
import signal
import time
from dataclasses import asdict, replace

import numpy as np

from tests.adversary import bounds, catalogue
from tests.adversary.oracle import Unavailable
from tests.adversary.settings import FAMILIES, METHODS, Draw, batch
from tests.adversary.verdict import WIDE, Verdict, judge
from tests.compiling import compile_fast

PATIENCE = {"relaxed_sgd": 12, "replace_one": 12, "calibrated": 12}  # seconds; others: 3
KINDS = {"jit32": np.float32}


def examined(family, mode, count, seed, methods=METHODS, corners=0.25):
    """[(setting, (lower, upper), verdict)] of one batch;
    a refusal of valid input is a violation of its own.
    """
    settings = [next_to_the_advantage(s, Draw(seed + k, corners))
                for k, s in enumerate(batch(family, count, seed, methods, corners))]
    if mode in KINDS:
        settings = [s.rounded(KINDS[mode]) for s in settings]
        settings = [s for s in settings if valid(s)]
    return [(s, b, v) for s, b, v in judged(settings, mode)]


def next_to_the_advantage(setting, draw):
    """Of an epsilon now and then at a delta that is nearly the largest that asks for any."""
    if setting.method != "epsilon" or draw.random.random() >= draw.corners:
        return setting
    whole = replace(setting, method="advantage", argument=0.0)
    try:
        ((least, _),) = bounds.says([whole], "eager")
    except Exception:
        return whole  # what it raises is counted where it is asked again
    return replace(setting, argument=float(least * draw.pick(0.5, 0.9, 0.99, 1 - 1e-6)))


def valid(setting):
    """Still inside the documented domain after rounding (n = 1 + tiny and weights are not)."""
    return all(
        np.isfinite(x) for x in [*bounds.numbers(setting.mechanism), setting.argument]
    ) and positive(setting.mechanism)


def positive(mechanism):
    name, *p = mechanism
    if name == "subsample":
        return 0 < p[0] <= 1 and positive(p[1])
    if name in catalogue.RATED:
        return 0 < p[-2] <= 1
    if name in ("dp_sgd", "relaxed_sgd", "replace_one"):
        return p[0] > 0 and 0 < p[1] <= 1
    return all(map(positive, parts(p)))


def parts(values):
    """The mechanisms among a mechanism's parameters, those of a mixture too."""
    for value in values:
        if isinstance(value, tuple) and value:
            yield from [value] if isinstance(value[0], str) else parts(value)


def judged(settings, mode):
    if not settings:
        return []
    try:
        brackets = bounds.says(settings, mode)
    except Exception as wrong:
        if len(settings) > 1:
            half = len(settings) // 2
            return judged(settings[:half], mode) + judged(settings[half:], mode)
        text = f"{type(wrong).__name__}: {str(wrong)[:200]}"
        return [(settings[0], (float("nan"), float("nan")), Verdict("violation", text))]
    return [(s, b, patient(s, b)) for s, b in zip(settings, brackets)]


def patient(setting, bracket):
    """The verdict, or "unavailable" if the oracle takes too much of the processor."""

    def late(*_):
        raise Unavailable("the oracle took too long")

    seconds = PATIENCE.get(setting.mechanism[0], 3)
    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        return judge(setting, *bracket)
    except Unavailable as reason:
        return Verdict("unavailable", str(reason))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def region(setting):
    sizes = [
        f"{np.log10(abs(x)):.0f}" if x else "zero"
        for x in [*bounds.numbers(setting.mechanism)[:4], setting.argument]
    ]
    return f"{setting.direction} log10 of parameters and argument: {' '.join(sizes)}"


class Table:
    """Counts per family and mode."""

    def __init__(self):
        self.rows = collections.defaultdict(collections.Counter)
        self.wide = collections.Counter()

    def add(self, family, mode, setting, verdict):
        row = self.rows[family, mode]
        row["settings"] += 1
        row[verdict.kind] += 1
        if verdict.kind in ("right", "undecided") and verdict.width > WIDE:
            row["wide"] += 1
            self.wide[family, setting.method, region(setting)] += 1

    def regions(self):
        """Where brackets are wider than 1e-4 relative:
        family, method, decades of parameters and argument.
        """
        lines = [f"{n:6d}  {' '.join(key)}" for key, n in self.wide.most_common(60)]
        return "\n".join(["wide brackets:", *lines])

    def text(self):
        names = ("settings", "violation", "undecided", "unavailable", "wide")
        head = f"{'family':20s}{'mode':8s}" + "".join(f"{n:>13s}" for n in names)
        lines = [
            f"{family:20s}{mode:8s}" + "".join(f"{row[n]:13d}" for n in names)
            for (family, mode), row in sorted(self.rows.items())
        ]
        return "\n".join([head, *lines])


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--settings", type=int, default=500)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--family", nargs="*", default=list(FAMILIES))
    parser.add_argument("--mode", nargs="*", default=["eager", "jit32", "jit64"])
    parser.add_argument("--method", nargs="*", default=list(METHODS))
    parser.add_argument("--corners", type=float, default=0.25)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--out", default="violations.jsonl")
    a = parser.parse_args(arguments)
    compile_fast()
    table, begun, done = Table(), time.time(), 0
    with open(a.out, "a") as out:
        for k, (family, mode) in enumerate(itertools.cycle(itertools.product(a.family, a.mode))):
            if done >= a.settings or time.time() - begun > 60 * a.minutes:
                break
            seed = a.seed * 1_000_003 + k
            t = time.time()
            for s, (low, high), v in examined(
                family, mode, a.batch, seed, tuple(a.method), a.corners
            ):
                done += 1
                table.add(family, mode, s, v)
                if v.kind == "violation":
                    row = {
                        "family": family,
                        "mode": mode,
                        "seed": seed,
                        **asdict(s),
                        "low": low,
                        "high": high,
                    }
                    print(json.dumps({**row, "note": v.note}), file=out, flush=True)
            print(
                f"{family} {mode} {s.method} {s.direction} {time.time() - t:.1f} s, "
                f"of which the package {bounds.SPENT[0]:.1f} s",
                flush=True,
            )
            bounds.SPENT[0] = 0.0
    print(table.text())
    print(table.regions())


if __name__ == "__main__":
    main()
