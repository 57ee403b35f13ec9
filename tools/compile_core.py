"""Compiles the machines and the fleet simulator to C with mypyc, for `baton sim`, `compare` and `tune`.

    python tools/compile_core.py

Into `build/compiled`: links to all files of the core, and extensions beside those that are compiled. What there was of
the same sources stays. Modules whose messages msgspec reads stay Python, since it reads them by their annotations.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baton.services.sim.compiled import CORE, FOLDER, STAMP, fingerprint, is_fresh, sources

COMPILED = (
    "executor/*", "router/*", "scheduler/*", "session/*", "kv/[!e]*", "sim/fleet_run/*",
    "deadlines", "metrics/histogram", "sim/env", "sim/process", "sim/step_time/features", "wire/codec",
)  # fmt: skip
MESSAGES = "msgspec.Struct"  #: in a module's text: it has some
WITH_MESSAGES = ("session/machine.py", "session/node.py")  #: of plain types, which come through
MYPY = ["--config-file=", "--cache-dir=/dev/null", "--namespace-packages", "--explicit-package-bases"]


def link_sources(core: Path) -> None:
    """The extensions of the core that are there for the sources count as such."""
    for path in (*sources(), *CORE.rglob("*.so")):
        link = core / path.relative_to(CORE)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)


def modules() -> list[str]:
    """Paths from the folder in which it is compiled."""
    found = [path for pattern in COMPILED for path in CORE.glob(f"{pattern}.py") if path.name != "__init__.py"]
    names = sorted(path.relative_to(CORE).as_posix() for path in found)
    return [f"baton/core/{n}" for n in names if n in WITH_MESSAGES or MESSAGES not in (CORE / n).read_text()]


class BuildAtOnce(build_ext):
    """The files of one extension are compiled at once, as many as there are cores."""

    def build_extensions(self) -> None:
        compile_some = self.compiler.compile

        def compile_all(sources: list[str], **told: Any) -> list[str]:
            with ThreadPool(len(os.sched_getaffinity(0))) as pool:
                made = pool.map(lambda source: compile_some([source], **told), sources)
            return [file for files in made for file in files]

        self.compiler.compile = compile_all
        super().build_extensions()


def compile_modules() -> None:
    """In the current folder. What is said is shown when it fails."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            extensions = mypycify([*MYPY, *modules()], opt_level="2", debug_level="0", multi_file=True)
            command = {"build_ext": BuildAtOnce}
            setup(name="baton", ext_modules=extensions, cmdclass=command, script_args=["-q", "build_ext", "--inplace"])
    except BaseException:
        print(said.getvalue(), file=sys.stderr)
        raise


def main() -> None:
    if is_fresh():
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    wanted = fingerprint()
    link_sources(FOLDER / "baton" / "core")
    os.chdir(FOLDER)
    compile_modules()
    shutil.rmtree("build")
    Path(STAMP).write_text(wanted)


if __name__ == "__main__":
    main()
