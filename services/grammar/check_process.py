"""The process in which strangers' grammars are compiled: `python -m baton.services.grammar.check_process FOLDER CPU_S`.

The library's limits do not cover all of its work: some grammars overflow its stack, others keep it busy for minutes.
So each is tried in a fork that has bounds of its own for CPU time, memory and stack, and whose death harms nobody.
Frames on standard input and output are a length (4 bytes, little-endian) and UTF-8 text; the first one out says why
the model cannot be used with grammars (empty: it can), then each grammar in is answered by its fault (empty: none).
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from typing import IO

from baton.core.errors import Incompatible
from baton.services.grammar.limits import CHECK_STACK_BYTES, MAX_CHECK_MEMORY_BYTES
from baton.services.grammar.probe import find_fault
from baton.services.grammar.vocabulary import Vocabulary, load_vocabulary

TOO_MUCH = "the grammar takes too much time or memory to compile"


def write_frame(stream: IO[bytes], text: str) -> None:
    data = text.encode()
    stream.write(len(data).to_bytes(4, "little") + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> str | None:
    """The next frame; None at the end of the stream."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    return data.decode() if len(data) == size else None


def check_in_fork(vocabulary: Vocabulary, grammar: str, cpu_s: float) -> str:
    """The grammar's fault, or TOO_MUCH if the fork did not live to tell."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _check_and_exit(vocabulary, grammar, cpu_s, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        fault = told.read().decode()
    _, status = os.waitpid(child, 0)
    return fault if status == 0 else TOO_MUCH


def _check_and_exit(vocabulary: Vocabulary, grammar: str, cpu_s: float, writer: int) -> None:
    status = 1
    try:
        bound_this_process(cpu_s)
        fault = find_fault(vocabulary, grammar)
        with os.fdopen(writer, "wb") as told:
            told.write(fault.encode())
        status = 0
    finally:
        os._exit(status)


def bound_this_process(cpu_s: float) -> None:
    """Death by SIGPROF, SIGSEGV or abort from here on, where the bounds are passed; no core is dumped."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    memory = pages * resource.getpagesize() + MAX_CHECK_MEMORY_BYTES
    for kind, bound in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_STACK, CHECK_STACK_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (bound, resource.getrlimit(kind)[1]))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)


def main(folder: str, cpu_s: str) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process by closing its input
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # or by its own end, whatever is being said then
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    try:
        vocabulary = load_vocabulary(Path(folder))
    except Incompatible as error:
        write_frame(answers, str(error))
        return 1
    write_frame(answers, "")
    while (grammar := read_frame(requests)) is not None:
        write_frame(answers, check_in_fork(vocabulary, grammar, float(cpu_s)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
