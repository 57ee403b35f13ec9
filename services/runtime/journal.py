"""The journal of a service, where one was asked for."""

from __future__ import annotations

from baton.services.runtime.driver import Journal
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.settings import Settings, SettingsInvalid


def open_journal(life: Lifecycle, settings: Settings) -> Journal | None:
    """None if no folder is set."""
    if not settings.service.journal_folder:
        return None
    raise SettingsInvalid("service.journal_folder: this build keeps no journal")
