"""`python -m jaxpriv` is the `jaxpriv` command."""

from jaxpriv.cli import console

console()
