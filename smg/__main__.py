"""`python -m smg` is `smg`."""

import sys

from smg.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
