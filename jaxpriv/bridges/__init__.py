"""Bridges to other tools, each a module of its own that is imported by its user.

- `jaxpriv.bridges.points`: curves of (epsilon, delta) points, and points of curves.
- `jaxpriv.bridges.renyi`: curves of Renyi divergences and of zCDP.
- `jaxpriv.bridges.privacy_loss`: curves of privacy-loss distributions that were saved.

Of other packages, which jaxpriv itself does not need; each is an extra by the other's name
(`pip install 'jaxpriv[opacus]'`):

- `jaxpriv.bridges.dp_accounting`: curves of its `DpEvent`s, and an accountant with its interface.
- `jaxpriv.bridges.jax_privacy`: curves of its execution plans and batch selections.
- `jaxpriv.bridges.opacus`: curves of its histories, and an accountant for its registry.
- `jaxpriv.bridges.flower`: an accountant by its protocol.
"""
