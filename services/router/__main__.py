"""`python -m baton.services.router`."""

import sys

from baton.services.router.service import main

if __name__ == "__main__":
    sys.exit(main())
