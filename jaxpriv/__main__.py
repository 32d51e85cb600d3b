"""`python -m jaxpriv` is the `jaxpriv` command."""

import sys

from jaxpriv.cli import main

sys.exit(main())
