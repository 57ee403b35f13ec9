"""The page's files are part of what is installed, small, and all in use."""

from __future__ import annotations

from pathlib import Path

from baton.services.loadgen.html.page import SCRIPTS, STYLES
from tests.support.installed import installed_files

MAX_LINES = 400


def test_an_installation_has_every_file_of_the_page(tmp_path: Path) -> None:
    sources = installed_files("services/loadgen/html", tmp_path)
    assert {"page.html", *STYLES, *SCRIPTS} == {name for name in sources if not name.endswith(".py")}
    for name, data in sources.items():
        assert len(data.splitlines()) <= MAX_LINES, name
