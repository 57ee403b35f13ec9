"""Programs of others in an environment of their own under build/: installed once, again when what is asked changes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from tests.accept.commands import ROOT, run

INSTALL_LIMIT_S = 900.0


class Environment(NamedTuple):
    folder: Path
    requirements: Path
    flags: tuple[str, ...] = ()  #: of pip

    @property
    def is_installed(self) -> bool:
        """Whether it holds what its requirements say now."""
        stamp = self._stamp
        return stamp.is_file() and stamp.read_text() == self.requirements.read_text()

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def install(self) -> str:
        """Make it if it is not there yet; why it cannot be made, or nothing."""
        if self.is_installed:
            return ""
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(self.folder)],
            [self.program("pip"), "install", "-q", *self.flags, "-r", str(self.requirements)],
        ):
            done = run(command, INSTALL_LIMIT_S)
            if done.code != 0:
                return f"{self.folder.name} cannot be installed here: {done.last_line}"
        shutil.copy(self.requirements, self._stamp)
        return ""

    @property
    def _stamp(self) -> Path:
        return self.folder / "installed"


AIPERF = Environment(ROOT / "build" / "aiperf-venv", ROOT / "tests" / "accept" / "aiperf-requirements.txt")
CLIENTS = Environment(ROOT / "build" / "clients-venv", ROOT / "tests" / "clients" / "requirements.txt")
#: its package names a placeholder among what it needs, so all of that is in the file
DYNAMO = Environment(
    ROOT / "build" / "dynamo-venv", ROOT / "bench" / "peers" / "dynamo-requirements.txt", ("--no-deps",)
)
