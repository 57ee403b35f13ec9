"""The simulator's modules compiled to C, if they were (`make compiled`): same sources, same results, in less time.

Loads nothing of the core: which modules it has is decided before the first of them is loaded. Whether what was compiled
is of the sources as they are now is read from them each time; else these run as they are.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

PACKAGE = "baton.core"
VARIABLE = "BATON_COMPILED"  #: `0` keeps to the sources
CORE = Path(__file__).resolve().parents[2] / "core"
FOLDER = CORE.parent / "build" / "compiled"  #: has a `baton/core` of its own, and STAMP when that is whole
STAMP = "sources.sha256"


def use_compiled() -> bool:
    """Whether this process runs what was compiled: to be called before anything of the core is loaded."""
    if is_in_use():
        return True
    if PACKAGE in sys.modules or os.environ.get(VARIABLE) == "0" or not is_fresh():
        return False
    for library in sorted(FOLDER.glob("*__mypyc.*")):  # what compiled modules share
        _load(library.name.partition(".")[0], library, [])
    core = FOLDER / "baton" / "core"
    package = _load(PACKAGE, core / "__init__.py", [str(core)])
    importlib.import_module("baton").core = package  # type: ignore[attr-defined]
    return True


def is_in_use() -> bool:
    package = sys.modules.get(PACKAGE)
    return package is not None and str(FOLDER) in str(package.__file__)


def is_fresh() -> bool:
    """Whether there are compiled modules of the sources as they are now."""
    try:
        return (FOLDER / STAMP).read_text() == fingerprint()
    except OSError:
        return False


def fingerprint() -> str:
    """Of every module's text and every file's name in the core, for this Python."""
    found = hashlib.sha256(sys.version.encode())
    for path in sources():
        found.update(f"{path.relative_to(CORE)}\n".encode())
        if path.suffix == ".py":
            found.update(path.read_bytes())
    return found.hexdigest()


def sources() -> list[Path]:
    """Every file of the core that is not made of others, in the order of their names."""
    return sorted(path for path in CORE.rglob("*") if path.is_file() and path.suffix not in (".so", ".pyc"))


def _load(name: str, path: Path, submodules: list[str]) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=submodules or None)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
