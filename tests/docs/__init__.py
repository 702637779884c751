"""The documentation: its examples run, its reference is complete, its pages hang together."""

import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
sys.path[:0] = [str(DOCS), str(DOCS / "_ext")]
