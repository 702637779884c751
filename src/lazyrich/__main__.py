"""`python -m lazyrich` is `lazyrich`."""

import sys

from lazyrich.cli import main

sys.exit(main())
