"""Loads that show an executor's steps of every kind, and the page on which it tells of them."""

from __future__ import annotations

import asyncio
import tempfile
from io import StringIO

import aiohttp
import msgspec
from rich.console import Console

from baton.core.errors import ServingError
from baton.core.sim.step_time.observed import ObservedSteps
from baton.services.loadgen.bench import Bench
from baton.services.loadgen.options import parse_options
from baton.services.loadgen.run_preflight import cause_of_http

TIMEOUT_S = 30.0
#: by what it shows: options of `baton bench`
LOADS = {
    "prompts alone": "--concurrency 1 --num-requests 40 --input-tokens uniform:4-900 --output-tokens 2",
    "prompts together": "--concurrency 6 --num-requests 40 --input-tokens uniform:4-500 --output-tokens 1",
    "decodes": "--concurrency 16 --ramp-s 10 --num-requests 32 --input-tokens uniform:4-200 --output-tokens 96",
    "both": "--concurrency 6 --num-requests 60 --input-tokens uniform:16-500 --output-tokens uniform:8-64",
}


class ExecutorUnread(ServingError):
    """The executor's page of steps could not be read."""


class LoadFailed(ServingError):
    """A load did not go as it should."""


def read_steps(executor: str, after: int = 0) -> ObservedSteps:
    """The steps after that one. Raises ExecutorUnread."""
    url = executor.removesuffix("/").removesuffix("/metrics") + f"/steps?after={after}"
    if "://" not in url:
        url = f"http://{url}"
    try:
        body = asyncio.run(_get(url))
        return msgspec.json.decode(body, type=ObservedSteps)
    except TimeoutError as error:
        raise ExecutorUnread(f"{url}: no answer within {TIMEOUT_S:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise ExecutorUnread(f"{url}: {cause_of_http(error)}") from error
    except ValueError as error:  # msgspec's too
        raise ExecutorUnread(f"{url}: {error}") from error


def drive(url: str, load: str, max_time_s: float) -> None:
    """Put the load on the server; what it measured is not kept. Raises ServingError."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [*load.split(), "--url", url, "--out", f"{folder}/run", "--no-live", "--no-metrics"]
        told = StringIO()
        console = Console(file=told)
        code = Bench(parse_options([*arguments, "--max-time-s", str(max_time_s)]), console, console).run()
        if code > 1:  # 1: cut short by its limit of time, which is no fault here
            raise LoadFailed(f"the load {load!r} ended with {code}: {told.getvalue().strip().splitlines()[-1:]}")


async def _get(url: str) -> bytes:
    timeout = aiohttp.ClientTimeout(TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        return await answer.read()
