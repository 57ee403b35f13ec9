"""`python -m tests.support.planted CATALOG NAME FOLDER`: one test with one planted defect, in a process of its own.

Exit codes: 1 when the test failed by what it says (an assertion, a law that does not hold), 0 when it passed, 2 when
it ended in any other way: a defect that breaks the module itself proves nothing.

`python -m tests.support.planted CATALOG` does so for each line `NAME FOLDER` that it reads and answers with the exit
code; what the test said is in FOLDER.txt. It has loaded what tests have in common and nothing that a defect is in, so
that each process begins with that.
"""

from __future__ import annotations

import importlib
import os
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from baton.core.sim.mutation import Mutation, install

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")  #: all others cost two seconds
SHARED = ("hypothesis.stateful", "msgpack", "numpy", "asyncio", "aiohttp")  #: no plugin: pytest rewrites those
BROKEN_LAWS = ("AssertionError", "Failed", "InvariantViolated", "PoolCorrupt", "IllegalTransition", "Violation")


class Verdict:
    """A plugin of pytest: what the test's own calls raised."""

    def __init__(self) -> None:
        self.raised: list[str] = []
        self.num_passed = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> object:
        if call.excinfo is not None:
            self.raised += names(call.excinfo.value) if call.when == "call" else [f"{call.when} raised"]
        elif call.when == "call":
            self.num_passed += 1
        return (yield)

    def code(self, pytest_code: int) -> int:
        if pytest_code == 0 and self.num_passed:
            return 0
        return 1 if self.raised and all(name in BROKEN_LAWS for name in self.raised) else 2


def names(error: BaseException) -> list[str]:
    """Of the error, or of all that it groups."""
    if isinstance(error, BaseExceptionGroup):
        return [name for part in error.exceptions for name in names(part)]
    return [type(error).__name__]


def entries(catalog: Path) -> dict[str, dict[str, str]]:
    """The defects of a catalog by name."""
    return {entry["name"]: entry for entry in tomllib.loads(catalog.read_text())["defect"]}


def mutation(entry: dict[str, str]) -> Mutation:
    known = Mutation.__struct_fields__
    return Mutation(**{key: value for key, value in entry.items() if key in known})  # type: ignore[arg-type]


def main(catalog: str, name: str, folder: str) -> int:
    """`folder`: for whatever the test writes."""
    entry = entries(Path(catalog))[name]
    install(mutation(entry))
    settings.register_profile("planted", phases=(Phase.explicit, Phase.generate), database=None)  # any failure will do
    settings.load_profile("planted")
    verdict = Verdict()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options = [f"-p{plugin}" for plugin in (*PLUGINS, "no:cacheprovider")]
    options += ["--hypothesis-seed=0", "--basetemp", folder, "--tb=short", "-x"]
    code = pytest.main([*options, str(ROOT / entry["test"])], plugins=[verdict])
    print("raised:", *verdict.raised)
    return verdict.code(int(code))


def checked(catalog: str, name: str, folder: str) -> int:
    """Python's own exit code for an error would be that of a defect that was found."""
    try:
        return main(catalog, name, folder)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return 2


def serve(catalog: str) -> None:
    for module in SHARED:
        importlib.import_module(module)
    for line in sys.stdin:
        name, folder = line.split()
        child = os.fork()
        if child == 0:
            with open(f"{folder}.txt", "wb") as said:
                os.dup2(said.fileno(), sys.stdout.fileno())
                os.dup2(said.fileno(), sys.stderr.fileno())
            code = checked(catalog, name, folder)
            sys.stdout.flush()
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        sys.exit(checked(*sys.argv[1:4]))
