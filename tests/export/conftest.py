"""Lets the tests of this folder import its helpers, and the cases of the importer's and the lowering's tests."""

import sys
from pathlib import Path

for folder in (Path(__file__).parent, *(Path(__file__).parent.parent / n for n in ("importers", "lowering"))):
    sys.path.insert(0, str(folder))
