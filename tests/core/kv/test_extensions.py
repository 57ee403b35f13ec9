"""A checkout whose extensions are not built says how to build them."""

import pytest

from baton.core import kv


def test_a_missing_extension_names_the_command_that_builds_it() -> None:
    with pytest.raises(ImportError, match=r"_not_built.*make install"):
        kv.require((*kv.EXTENSIONS, "_not_built"))
