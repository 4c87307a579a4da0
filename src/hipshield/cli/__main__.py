"""`python -m hipshield.cli` is the command `hipshield`."""

import sys

from hipshield.cli import main

sys.exit(main())
