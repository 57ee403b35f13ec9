"""X3: what real processes did is replayed by fresh nodes, command for command."""

from __future__ import annotations

from pathlib import Path

from baton.core.events import each_of
from baton.core.journal import decode_event, read_journal, replay
from baton.services.sim.replay import main, make_node
from baton.services.transport.keys import KeyRing
from tests.processes.conftest import NAMES, Stage
from tests.support.load import Load
from tests.support.stack import Stack


def test_x3_the_journals_of_a_run_with_a_death_in_it_replay_to_the_same_commands(stage: Stage, tmp_path: Path) -> None:
    answered: list[int] = []  #: events of the life that was killed, as it last said

    async def story(stack: Stack) -> None:
        load = Load(stack)
        await load.good_answers(30)
        answered.append(int((await stack.gauges("prefill"))["events_total"]))
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
    num_events = []
    paths = sorted(journals.glob("*.journal"))
    for path in paths:
        with path.open("rb") as stream:
            header, read = read_journal(stream)
            turns = list(read)
            count, difference = replay(turns, make_node(header, hash_key))
        assert difference is None, f"{path.name}: {difference}"
        assert count == len(turns)
        num_events.append(sum(len(each_of(decode_event(turn.event))) for turn in turns))
    assert [path.name.partition("-")[0] for path in paths] == ["decode", "prefill", "prefill", "router", "scheduler"]
    assert num_events[1] >= answered[0] > 0
    assert sum(num_events) > 500
    assert main([*map(str, paths), "--hash-key", str(stage.folder / "keys" / "hash.key")]) == 0
