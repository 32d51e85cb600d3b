"""Doctests of bridges are collected where the other tool is installed; the site has none.
"""

from importlib.util import find_spec

PEERS = {"opacus": "opacus", "flower": "flwr", "jax_privacy": "jax_privacy"}
collect_ignore = [
    f"jaxpriv/bridges/{bridge}.py" for bridge, peer in PEERS.items() if find_spec(peer) is None
] + ["docs/conf.py", "docs/docstrings.py", "docs/pictures"]
