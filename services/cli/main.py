"""The `baton` command: finds the subcommand and loads only that one, so that no command needs what another imports."""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import signal
import sys
from importlib.metadata import version
from types import ModuleType
from typing import NamedTuple

EXIT_FAILED = 1
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_UNREAD = 128 + signal.SIGPIPE


class Command(NamedTuple):
    module: str  #: has `main(arguments) -> int | None`
    summary: str
    simulates: bool = False  #: long, and alone: on compiled modules, if there are any


COMMANDS = {
    "up": Command("baton.services.up.__main__", "start a whole deployment on this machine and keep it running"),
    "router": Command("baton.services.router.__main__", "run a router: the OpenAI-compatible HTTP API"),
    "scheduler": Command("baton.services.scheduler.__main__", "run the scheduler"),
    "prefill": Command("baton.services.prefill.__main__", "run a prefill executor"),
    "decode": Command("baton.services.decode.__main__", "run a decode executor"),
    "unified": Command("baton.services.unified.__main__", "run an executor that prefills and decodes"),
    "keys": Command("baton.services.cli.keys", "make or extend a deployment's key folder"),
    "model": Command("baton.services.model.__main__", "fetch or convert a model once"),
    "bench": Command("baton.services.loadgen.__main__", "put a load on an OpenAI-compatible server and report"),
    "sim": Command("baton.services.sim.run", "run a load on a simulated fleet and report", True),
    "compare": Command("baton.services.sim.compare", "say whether P/D is worth it for a load, and why", True),
    "tune": Command("baton.services.sim.tune", "find the topology and knobs that serve the most within an SLO", True),
    "profile": Command("baton.services.profile.__main__", "fit a step-time profile on a running executor"),
    "fuzz": Command("baton.services.sim.fuzz", "search the simulator for a broken law"),
    "trace": Command("baton.services.trace.__main__", "write what all processes did lately as one trace"),
    "replay": Command("baton.services.sim.replay", "replay a journal and compare every command"),
}


def is_there(command: Command) -> bool:
    """Whether this installation has it."""
    try:
        return importlib.util.find_spec(command.module) is not None
    except ModuleNotFoundError:
        return False


def usage() -> str:
    lines = [f"  {name:<11}{command.summary}" for name, command in COMMANDS.items() if is_there(command)]
    more = "`baton COMMAND --help` says more; `baton --version` says which one this is."
    return "\n".join(["usage: baton COMMAND [OPTIONS]", "", *lines, "", more])


def main(arguments: list[str] | None = None) -> int:
    """Exit code: that of the subcommand; 2 for one that does not exist. A Ctrl-C, or an output that nobody reads to its
    end, gives the code that a shell has for it, and no traceback; one that takes no more (a full disk) gives a line."""
    code = 0
    try:
        try:
            code = run(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return EXIT_UNREAD
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        _drop_output()
        if not code:  # else the command has told it
            print(f"baton: {error.strerror}", file=sys.stderr)
        return code or EXIT_FAILED
    return code


def _drop_output() -> None:
    """What the exit would still flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(given: list[str]) -> int:
    """One command line, without the name of the program."""
    if not given or given[0] in ("-h", "--help"):
        print(usage())
        return 0 if given else 2
    if given[0] == "--version":
        print(f"baton {version('baton-serve')}")
        return 0
    command = COMMANDS.get(given[0])
    if command is None or not is_there(command):
        print(f"baton: there is no command {given[0]!r}\n\n{usage()}", file=sys.stderr)
        return 2
    if command.simulates:
        load("baton.services.sim.compiled").use_compiled()
    code = load(command.module).main(given[1:])
    return int(code or 0)


def load(module: str) -> ModuleType:
    """While libraries load, a Ctrl-C ends the process: some of them would make something else of the interrupt."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not where it is ignored, as for a shell's background job
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return importlib.import_module(module)
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main())
