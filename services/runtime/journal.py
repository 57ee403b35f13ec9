"""The journal of a service, where one was asked for: a file for each life.

Written out once after each turn of the driver and on every way out, so a killed process leaves all but its last turn.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.ids import Peer
from baton.core.journal import JournalHeader, JournalWriter
from baton.core.layout import KvLayout
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.settings import Knobs, Settings, SettingsInvalid

BUFFER_BYTES = 1 << 20
JOURNAL_KEY = "service.journal_folder"


class FileJournal(JournalWriter):
    """A journal that writes out what it has buffered when the driver says so."""

    def __init__(self, stream: BinaryIO, header: JournalHeader) -> None:
        super().__init__(stream, header)
        self.flush = stream.flush
        self.flush()


def open_journal(life: Lifecycle, settings: Settings, own: Peer, layout: KvLayout | None) -> FileJournal | None:
    """None if no folder is set. Raises SettingsInvalid if the file cannot be written."""
    if not settings.service.journal_folder:
        return None
    path = make_journal_folder(settings.service.journal_folder) / f"{own.name}-{own.epoch}.journal"
    try:
        stream = path.open("xb", buffering=BUFFER_BYTES)
    except OSError as error:
        raise SettingsInvalid(f"{JOURNAL_KEY}: {error}") from error
    life.before_exit(stream.flush)
    return _begin(stream, settings, own, layout)


def make_journal_folder(folder: str, key: str = JOURNAL_KEY) -> Path:
    """The folder, made if absent. Raises SettingsInvalid, which names the key that asked for it."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsInvalid(f"{key} = {folder!r}: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SettingsInvalid(f"{key} = {folder!r}: this user may not write there")
    return Path(folder)


def _begin(stream: BinaryIO, settings: Settings, own: Peer, layout: KvLayout | None) -> FileJournal:
    knobs: Knobs = settings.knobs
    header = JournalHeader(
        own=own,
        heartbeat_s=settings.link.heartbeat_s,
        silence_s=settings.link.silence_s,
        executor=knobs if isinstance(knobs, ExecutorConfig) else None,
        layout=layout,
        scheduler=knobs if isinstance(knobs, SchedulerConfig) else None,
        router=knobs if isinstance(knobs, RouterConfig) else None,
    )
    return FileJournal(stream, header)
