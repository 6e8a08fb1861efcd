"""``python -m pegasos``: the command of :mod:`pegasos.cli`."""

import sys

from pegasos.cli import main

if __name__ == "__main__":
    sys.exit(main())
