"""New random settings on every run: every bracket holds the truth. ADVERSARY_SEED repeats a run.

The short test stays within about a minute, compilation included: it draws batches until its time is
over, the families in an order of its own each time. `pytest -m long tests/adversary` takes 10,000
settings and more, over everything.
"""

import os
import time

import pytest

from tests.adversary.bounds import MODES
from tests.adversary.campaign import Table, examined
from tests.adversary.settings import FAMILIES, LEAVES, METHODS, Draw

SEED = int(os.environ["ADVERSARY_SEED"])  # from conftest.py, which prints it
SECONDS = float(os.environ.get("ADVERSARY_SECONDS", 30))
SOON = ("delta", "log_delta", "advantage")  # little to compile
QUICK = [
    (family, mode, SOON)
    for family in (*LEAVES, "subsample", "mixture")
    for mode in ("eager", "jit32", "jit64")
]
SAMPLED = ("dp_sgd", "dp_sgd_few", "relaxed_sgd", "replace_one", "calibrated")  # slow one by one
QUICK += [(family, "eager", METHODS) for family in LEAVES]
QUICK += [(family, "eager", ("delta",)) for family in SAMPLED]


def refuse(found):
    """Fail with the settings that are wrong, ready for test_kept.py."""
    lines = [f"{mode} {s} says {b}: {v.note}" for mode, s, b, v in found]
    assert not found, f"ADVERSARY_SEED={SEED}: {len(found)} brackets are wrong\n" + "\n".join(
        lines[:40]
    )


@pytest.mark.slow
def test_new_settings_of_this_run():
    draw, begun, wrong, judged, k = Draw(SEED), time.monotonic(), [], 0, 0
    plan = [QUICK[i] for i in draw.random.permutation(len(QUICK))]
    while time.monotonic() - begun < SECONDS:
        family, mode, methods = plan[k % len(plan)]
        k += 1
        count = 4 if family == "dp_sgd" else 2 if family in SAMPLED else 25
        for s, b, v in examined(family, mode, count, SEED + k, methods):
            judged += v.kind in ("right", "violation", "undecided")
            if v.kind == "violation":
                wrong.append((mode, s, b, v))
    assert judged > 0
    refuse(wrong)


@pytest.mark.slow
@pytest.mark.long
def test_ten_thousand_settings(capsys):
    table, wrong, k, done = Table(), [], 0, 0
    while done < 10_000:
        for family in FAMILIES:
            for mode in MODES:
                k += 1
                count = 4 if mode == "scalar" else 16
                for s, b, v in examined(family, mode, count, SEED + 7919 * k, METHODS):
                    done += 1
                    table.add(family, mode, s, v)
                    if v.kind == "violation":
                        wrong.append((mode, s, b, v))
    with capsys.disabled():
        print(f"\nADVERSARY_SEED={SEED}\n{table.text()}\n{table.regions()}")
    refuse(wrong)
