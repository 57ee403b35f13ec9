"""`python -m baton.services.scheduler`."""

import sys

from baton.services.scheduler.service import main

if __name__ == "__main__":
    sys.exit(main())
