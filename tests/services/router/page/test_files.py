"""The built-in page's files are part of what is installed, and all in use."""

from __future__ import annotations

from pathlib import Path

from baton.services.router.http.builtin_page import FILES
from tests.support.installed import installed_files


def test_an_installation_has_every_file_of_the_page(tmp_path: Path) -> None:
    sources = installed_files("services/router/page", tmp_path)
    assert {file for file, *_ in FILES.values()} == {name for name in sources if not name.endswith(".py")}
