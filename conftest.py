"""What is collected: bridges and their tests where the other tool is installed, and nothing of what
makes the site.
"""

import os
from importlib.util import find_spec

# before NumPy is there: as many test processes as cores, each with one thread for its products
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

PEERS = {"opacus": "opacus", "flower": "flwr", "jax_privacy": "jax_privacy"}
MISSING = [bridge for bridge, peer in PEERS.items() if find_spec(peer) is None]
collect_ignore = ["docs/conf.py", "docs/docstrings.py", "docs/pictures"]
for bridge in MISSING:
    collect_ignore += [f"jaxpriv/bridges/{bridge}.py", f"tests/bridges/test_{bridge}.py"]


def pytest_report_header():
    return [f"not installed, so not tested: jaxpriv[{bridge}]" for bridge in MISSING]
