"""The README's example of services that are started one by one, run as it stands but for its ports."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout

from tests.processes.conftest import HANG_LIMIT_S, Stage
from tests.support.stack import free_port

README = Path(__file__).parents[2] / "README.md"
IS_READY = re.compile(r"until curl -sf (http://\S+)/ready; do sleep 1; done")


def example() -> tuple[str, str]:
    """The commands up to the wait for the router, on free ports, and where the router then is."""
    block = re.search(r"### One by one\n.*?```bash\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    text = block[1].replace(":8100", f":{free_port()}")
    port = str(free_port())
    text = text.replace(":8000", f":{port}").replace("--port 8000", f"--port {port}")
    ready = IS_READY.search(text)
    assert ready is not None
    return text[: ready.start()], ready[1]


@contextmanager
def running(script: str, folder: Path) -> Iterator[None]:
    """A shell of its own process group, of which nothing is left afterwards."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "BATON_CACHE": str(folder / "cache")}
    command = ["bash", "-euc", f"{script}\nwait"]
    with subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True) as shell:
        try:
            yield
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def test_the_services_of_the_readme_start_one_by_one_and_answer(stage: Stage, tmp_path: Path) -> None:
    script, url = example()

    async def story() -> None:
        async with asyncio.timeout(HANG_LIMIT_S), ClientSession(timeout=ClientTimeout(total=60)) as session:
            while not await is_ready(session, url):
                await asyncio.sleep(0.05)
            body = {"model": "tiny", "prompt": "hello", "max_tokens": 4, "ignore_eos": True}
            async with session.post(f"{url}/v1/completions", json=body) as response:
                answer = await response.json()
        assert answer["usage"]["completion_tokens"] == 4, answer

    with running(script, tmp_path):
        stage.run_bare(story())


async def is_ready(session: ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/ready") as answer:
            return answer.status == 200
    except OSError:  # nobody listens yet
        return False
