"""Bridges to other frameworks. Each is a module of its own that is imported by its user, for each
needs a package that jaxpriv itself does not: `pip install jaxpriv[dp-accounting]`.

- `jaxpriv.bridges.dp_accounting`: curves of its `DpEvent`s, and an accountant with its interface.
"""
