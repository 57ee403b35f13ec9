"""Maps `core/` to `baton.core` and `services/` to `baton.services`, and builds the native core from `csrc/`.

`baton` is a namespace without a folder of its own. Every folder below `core/` and `services/` that holds an
`__init__.py` is a package. Each extension is a thin `.pyx` over one or more C files that know nothing of Python.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent
PACKAGE_DIRS = {"baton.core": "core", "baton.services": "services"}

#: extension module -> the C units that it needs besides the `.pyx` of its last name
EXTENSIONS = {
    "baton.core.kv._block_hash": ["siphash", "block_hash"],
    "baton.core.kv._prefix_compare": ["prefix_compare"],
    "baton.core.kv._block_pool": ["block_index", "block_pool"],
    "baton.core.kv._ready_queue": ["handle_map", "ready_queue"],
    "baton.core.kv._ledger": ["ledger"],
    "baton.services.executor.engine.kernels._kernels": ["team", "dense", "paged_attention"],
}
#: package -> what it has besides modules
DATA = {
    "baton.core.sim.scenarios": ["*.toml"],
    "baton.core.sim.step_time": ["profiles/*.json"],
    "baton.services.loadgen.traces": ["samples/*.jsonl"],
    "baton.services.loadgen.html": ["*.html", "*.js", "*.css"],
    "baton.services.sim.html": ["*.js", "*.css"],
    "baton.services.router.page": ["*.html", "*.js", "*.css", "*.svg"],
}
DEBUG = os.environ.get("BATON_NATIVE_DEBUG") == "1"


def find_packages() -> list[str]:
    """Return the dotted name of every package below the two mapped folders, parents first."""
    names = []
    for package, folder in PACKAGE_DIRS.items():
        for init in sorted((ROOT / folder).rglob("__init__.py")):
            parts = init.parent.relative_to(ROOT / folder).parts
            names.append(".".join((package, *parts)))
    return sorted(names)


def native_extensions() -> list[Extension]:
    """Return the extensions; `depends` also keeps headers and Cython sources in an sdist."""
    shared = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "csrc").glob("*.[hp]*"))
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wno-unused-function"] + (["-O1", "-g"] if DEBUG else ["-O3"])
    return [
        Extension(
            name,
            [f"csrc/{name.rpartition('.')[2]}.pyx", *(f"csrc/{unit}.c" for unit in units)],
            include_dirs=["csrc"],
            depends=shared,
            extra_compile_args=flags,
        )
        for name, units in EXTENSIONS.items()
    ]


setup(
    packages=find_packages(),
    package_dir=PACKAGE_DIRS,
    package_data={name: ["py.typed", "*.pyi", *DATA.get(name, [])] for name in find_packages()},
    ext_modules=cythonize(
        native_extensions(),
        build_dir="build/cython_debug" if DEBUG else "build/cython",
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "wraparound": False,
            "initializedcheck": DEBUG,
            "embedsignature": True,
        },
    ),
)
