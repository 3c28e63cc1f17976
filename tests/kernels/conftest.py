"""Lets the tests of this folder import its helpers, and leaves them out where MAX is not installed."""

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore_glob = [] if importlib.util.find_spec("max") else ["test_*.py"]
