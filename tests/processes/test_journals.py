"""X3: what real processes did is replayed by fresh nodes, command for command."""

from __future__ import annotations

from pathlib import Path

from baton.core.executor.machine import ExecutorCore
from baton.core.ids import Role
from baton.core.journal import JournalHeader, read_journal, replay
from baton.core.router.machine import RouterCore
from baton.core.scheduler.machine import SchedulerCore
from baton.core.session.machine import LinkTiming
from baton.core.session.node import Node
from baton.services.transport.keys import KeyRing
from tests.processes.conftest import NAMES, Stage
from tests.support.load import Load
from tests.support.stack import Stack


def fresh_node(header: JournalHeader, hash_key: bytes) -> Node:
    timing = LinkTiming(header.heartbeat_s, header.silence_s)
    if header.own.role is Role.SCHEDULER:
        assert header.scheduler is not None
        return Node(header.own, SchedulerCore(header.own, header.scheduler), timing)
    if header.own.role is Role.ROUTER:
        assert header.router is not None
        return Node(header.own, RouterCore(header.own, header.router), timing)
    assert header.executor is not None
    assert header.layout is not None
    return Node(header.own, ExecutorCore(header.own, header.layout, header.executor, hash_key), timing)


def test_x3_the_journals_of_a_run_with_a_death_in_it_replay_to_the_same_commands(stage: Stage, tmp_path: Path) -> None:
    async def story(stack: Stack) -> None:
        load = Load(stack)
        await load.good_answers(30)
        await stack.kill("prefill")
        stack.start("prefill")
        await load.good_answers(20)
        await load.stop()
        await stack.quiescent()
        for name in NAMES:
            stack.running[name].terminate()
            assert await stack.exited(name) == 0

    journals = tmp_path / "journals"
    stage.run(story, **{name: ("--journal-folder", str(journals)) for name in NAMES})
    hash_key = KeyRing(stage.folder / "keys", "launcher").hash_key
    num_turns = 0
    for path in sorted(journals.glob("*.journal")):
        if path.stat().st_size == 0:  # of the life that was killed: nothing had left its buffer
            continue
        with path.open("rb") as stream:
            header, turns = read_journal(stream)
            count, difference = replay(turns, fresh_node(header, hash_key))
        assert difference is None, f"{path.name}: turn {difference.index if difference else 0}"
        num_turns += count
    assert num_turns > 500
