"""What the commands of `jaxpriv.cli` share, and the longer ones."""
