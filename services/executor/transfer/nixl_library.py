"""Finds the NIXL build to use. `import nixl` loads torch only to learn the CUDA version, which takes seconds.

With torch loaded already, NIXL's own choice is taken. Without it this process has no device memory, and any build moves
host memory.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

BUILDS = ("nixl_cu13", "nixl_cu12")  #: in the order of NIXL's own choice


def _find() -> str:
    if "torch" in sys.modules:
        return "nixl"
    for name in BUILDS:
        if importlib.util.find_spec(name) is not None:
            return name
    raise ImportError("no NIXL build is installed: pip install 'baton-serve[engine]'")


def _load() -> tuple[ModuleType, ModuleType]:
    name = _find()
    return importlib.import_module(f"{name}._api"), importlib.import_module(f"{name}._bindings")


api, bindings = _load()

#: every error that NIXL raises; they share no base of their own
ERRORS = tuple(getattr(bindings, name) for name in dir(bindings) if name.startswith("nixl") and name.endswith("Error"))
