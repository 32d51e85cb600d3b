"""Where the tests' time goes: `METER=seconds.jsonl pytest -p tests.meter -n 2 ...` writes a line of
seconds for each test, which other work on the machine changes little.

    python -m tests.meter seconds.jsonl [MORE ROWS]

own, processes: of the processor, by the test and by those it starts; compiling: of these, tracing
and lowering included.
"""

import collections
import json
import os
import sys

import jax
import pytest

_STEPS = ("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration", "backend_compile_duration")
_compiling: collections.Counter = collections.Counter()


def _noted(event, seconds, **_):
    if event.endswith(_STEPS):
        _compiling["seconds"] += seconds


jax.monitoring.register_event_duration_secs_listener(_noted)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    _compiling.clear()
    before = os.times()
    try:
        return (yield)
    finally:
        spent = [after - start for start, after in zip(before, os.times())]
        row = {"test": item.nodeid, "own": sum(spent[:2]), "processes": sum(spent[2:4]),
               "compiling": _compiling["seconds"]}
        with open(os.environ["METER"], "a") as file:
            file.write(json.dumps(row) + "\n")


def told(rows, most):
    """Lines of what takes longest, all cases of a test together."""
    tests = collections.defaultdict(collections.Counter)
    for row in rows:
        name = row.pop("test").split("[")[0]
        for tally in (tests[name], tests["all"]):
            tally.update(row, cases=1)
    dearest = sorted(tests.items(), key=lambda test: -test[1]["own"] - test[1]["processes"])
    yield "    own processes compiling  cases"
    for name, spent in dearest[: most + 1]:
        yield "{own:7.1f} {processes:9.1f} {compiling:9.1f} {cases:6d}  ".format(**spent) + name


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print("\n".join(told(map(json.loads, file), int((sys.argv[2:] or [40])[0]))))
