"""The package's own names stay what they are, whatever was imported."""

import importlib
import pkgutil

import fornaxc


def test_no_module_hides_a_public_function() -> None:
    modules = {module.name for module in pkgutil.iter_modules(fornaxc.__path__)}
    assert not modules & set(fornaxc.__all__)
    importlib.import_module("fornaxc.verification.session")
    assert callable(fornaxc.verify)
