"""The launcher's machine: exits are told as a level, the last of each name in every session."""

from __future__ import annotations

from baton.core.events import PeerDown, PeerUp, Send
from baton.core.ids import Life, Peer, Role
from baton.core.wire.messages import Exited
from baton.services.up.launcher import ChildExited, LauncherCore

SCHEDULER = Peer("scheduler", Role.SCHEDULER, 5)


def test_an_exit_is_told_at_once_while_there_is_a_session() -> None:
    launcher = LauncherCore(Peer("launcher", Role.LAUNCHER, 1))
    assert launcher.handle(PeerUp(SCHEDULER), 0.0) == []
    assert launcher.handle(ChildExited(Life("decode0", 3)), 1.0) == [Send("scheduler", Exited(Life("decode0", 3)))]


def test_every_session_begins_with_the_last_exit_of_each_name() -> None:
    launcher = LauncherCore(Peer("launcher", Role.LAUNCHER, 1))
    for life in (Life("decode0", 3), Life("prefill0", 4), Life("decode0", 9)):
        assert launcher.handle(ChildExited(life), 0.0) == []
    told = [Send("scheduler", Exited(Life("decode0", 9))), Send("scheduler", Exited(Life("prefill0", 4)))]
    assert launcher.handle(PeerUp(SCHEDULER), 1.0) == told
    assert launcher.handle(PeerDown(SCHEDULER, "silence"), 2.0) == []
    assert launcher.handle(ChildExited(Life("decode0", 11)), 3.0) == []
    assert launcher.readiness()
    restarted = Peer("scheduler", Role.SCHEDULER, 6)
    assert launcher.handle(PeerUp(restarted), 4.0)[0] == Send("scheduler", Exited(Life("decode0", 11)))
