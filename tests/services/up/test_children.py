"""A child of `baton up`: restarted with a later epoch whatever ended it, unless it says that it cannot start."""

from __future__ import annotations

import asyncio
import io
import signal
import sys
from pathlib import Path

import pytest

from baton.core.ids import Life, Role
from baton.services.runtime.log import Log
from baton.services.runtime.refusal import write_refusal
from baton.services.up.children import MAX_UNSERVED, Child, StartRefused, processes_of
from baton.services.up.plan import ChildPlan
from tests.support.loops import run_on_uvloop, until

FOREVER = "import signal; signal.pause()"


NOWHERE = Path("/nonexistent")
#: arguments as `baton up` gives them: the run folder, then --epoch EPOCH
SERVE = """
import json, sys
from pathlib import Path
folder, epoch = Path(sys.argv[1]), int(sys.argv[3])
record = dict(name="decode0", epoch=epoch, pid=1, address="", admin_port=0)
(folder / "new").write_text(json.dumps(record))
(folder / "new").rename(folder / "decode0.json")
"""


def child(code: str, exits: list[Life], run_folder: Path = NOWHERE, said: io.StringIO | None = None) -> Child:
    plan = ChildPlan("decode0", Role.DECODE, (sys.executable, "-c", code), (str(run_folder),))
    return Child(plan, Log("launcher", 1, said or io.StringIO()), exits.append, run_folder)


def test_a_killed_child_lives_again_under_a_later_epoch_and_its_exit_is_told_first() -> None:
    async def story() -> None:
        exits: list[Life] = []
        made = child(FOREVER, exits)
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: made.pid != 0)
        first = made.epoch
        made.kill()
        await until(lambda: made.pid != 0 and made.num_starts == 2)
        assert exits == [Life("decode0", first)]
        assert made.epoch > first
        made.stop()
        await watch
        assert len(exits) == 2

    run_on_uvloop(story())


def test_a_router_that_chose_its_port_comes_back_on_it(tmp_path: Path) -> None:
    """`--port 0`: whoever was told the first life's address finds the second one there."""
    serve = SERVE.replace("admin_port=0", "admin_port=0, http_port=4711")
    told = "(folder / f'{epoch}.argv').write_text(' '.join(sys.argv[4:]))\n"

    async def story() -> None:
        exits: list[Life] = []
        made = child(serve + told, exits, tmp_path)
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: len(exits) >= 2)
        made.stop()
        await watch
        first, second = ((tmp_path / f"{life.epoch}.argv").read_text() for life in exits[:2])
        assert (first, second) == ("", "--port 4711")

    run_on_uvloop(story())


def test_a_child_that_refuses_its_settings_is_not_started_again() -> None:
    async def story() -> None:
        made = child("raise SystemExit(2)", [])
        with pytest.raises(StartRefused, match="decode0"):
            await made.keep_running()
        assert made.num_starts == 1

    run_on_uvloop(story())


def test_w7_the_exit_of_a_life_is_told_when_nothing_runs_any_more_that_it_has_started() -> None:
    """A rank of its group may still write to peers."""

    async def story() -> None:
        exits: list[Life] = []
        forks = "import os, signal; os.fork(); signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
        made = child(forks, exits)
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: made.pid != 0 and len(processes_of(made.pid)) == 2)
        session = made.pid
        seen: list[list[int]] = []
        made._exited = lambda life: seen.append(processes_of(session))
        made.kill()
        await until(lambda: bool(seen))
        assert seen == [[]]
        made.stop()
        await watch

    run_on_uvloop(story())


def test_stopping_ends_a_backoff_at_once() -> None:
    async def story() -> None:
        exits: list[Life] = []
        made = child("raise SystemExit(1)", exits)
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: len(exits) == 3)
        made.stop()
        await watch
        assert made.num_starts == 3

    run_on_uvloop(story())


def test_a_child_does_not_hear_the_launchers_interrupt() -> None:
    async def story() -> None:
        made = child("import os; raise SystemExit(3 if os.getpid() == os.getsid(0) else 2)", [])
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: made.num_starts == 2)
        made.stop()
        await watch

    run_on_uvloop(story())


def test_a_child_that_ignores_the_request_can_be_killed() -> None:
    async def story() -> None:
        exits: list[Life] = []
        made = child("import signal; signal.signal(15, signal.SIG_IGN); " + FOREVER, exits)
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: made.pid != 0)
        made.stop()
        made.kill()
        await watch
        assert len(exits) == 1

    assert signal.SIGTERM == 15
    run_on_uvloop(story())


def test_a_refusal_says_why_with_the_childs_own_words(tmp_path: Path) -> None:
    async def story() -> None:
        write_refusal(str(tmp_path), "decode0", "no such key")
        with pytest.raises(StartRefused, match="decode0 cannot start: no such key"):
            await child("raise SystemExit(2)", [], tmp_path).keep_running()

    run_on_uvloop(story())


def test_a_child_that_never_comes_to_serve_is_given_up(tmp_path: Path) -> None:
    async def story() -> None:
        made = child("raise SystemExit(72)", [], tmp_path)
        with pytest.raises(StartRefused, match=f"ended {MAX_UNSERVED} times before it served.*exit code 72"):
            await made.keep_running()
        assert made.num_starts == MAX_UNSERVED

    run_on_uvloop(story())


def test_a_child_that_has_served_is_started_again_however_often_it_dies(tmp_path: Path) -> None:
    serves_once = f"""
import os, sys
if os.path.exists(os.path.join(sys.argv[1], "decode0.json")):
    raise SystemExit(72)
{SERVE}
raise SystemExit(72)
"""

    async def story() -> None:
        made = child(serves_once, [], tmp_path)
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: made.num_starts == MAX_UNSERVED + 2)
        made.stop()
        await watch

    run_on_uvloop(story())


@pytest.mark.parametrize("serves", [True, False])
def test_a_stop_asks_one_that_serves_and_ends_one_that_still_starts(tmp_path: Path, serves: bool) -> None:
    code = "import signal; signal.signal(15, lambda *_: sys.exit(5)); import sys\n"
    code += (SERVE if serves else "open(sys.argv[1] + '/begun', 'w')\n") + FOREVER
    said = io.StringIO()

    async def story() -> None:
        made = child(code, [], tmp_path, said)
        watch = asyncio.ensure_future(made.keep_running())
        await until(lambda: made.is_serving if serves else (tmp_path / "begun").exists())
        made.stop()
        await watch

    run_on_uvloop(story())
    codes = [line.rpartition("exit_code=")[2] for line in said.getvalue().splitlines() if "what=exited" in line]
    assert codes == ["5" if serves else str(-signal.SIGKILL)]
