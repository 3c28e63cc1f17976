"""Handlers of operations, by family. Importing this package registers all of them."""

import pkgutil
from importlib import import_module

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
