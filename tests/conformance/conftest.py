"""The tiny model's folder, and a rig around it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, open_rig, tiny_router_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> RouterModel:
    return tiny_router_model(tmp_path_factory.mktemp("tiny"))


@pytest_asyncio.fixture
async def rig(model: RouterModel) -> AsyncIterator[Rig]:
    async with open_rig(model, stop_grace_s=0.5) as opened:
        yield opened
