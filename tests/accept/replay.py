"""What a deployment did is replayed from its journals, command for command, whatever the hash seed."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import ClientSession

from tests.accept.commands import BATON, run
from tests.accept.deployment import Deployment, post
from tests.accept.disconnects import ask_and_leave
from tests.accept.row import Options, Row, judged

ASKED = "`baton replay` of every journal gives the same commands byte for byte under PYTHONHASHSEED 0 and 1"
NUM_REQUESTS = 6
LIMIT_S = 300.0


def measure(_: Options) -> Row:
    with TemporaryDirectory(prefix="accept-") as name:
        folder = Path(name)
        with Deployment("--journal", str(folder / "journals")) as up:
            model = up.model
            for index in range(NUM_REQUESTS):
                body = {"model": model, "prompt": "again and " * 30 * index + "once", "max_tokens": 24}
                post(f"{up.url}/v1/completions", {**body, "seed": index})
            asyncio.run(leave(up.url, {"model": model, "prompt": "and then " * 40, "max_tokens": 400, "stream": True}))
            up.wait_until_quiescent()
            (folder / "hash.key").write_bytes((up.run_folder / "keys" / "hash.key").read_bytes())
        journals = sorted((folder / "journals").glob("*.journal"))
        results = {seed: replay(journals, folder / "hash.key", seed) for seed in ("0", "1")}
    agreeing = {seed: len(found) for seed, (_, found) in results.items()}
    num_turns = sum(results["0"][1])
    is_met = all(code == 0 and len(found) == len(journals) for code, found in results.values()) and len(journals) == 4
    measured = f"{len(journals)} journals, {num_turns:,} turns; agree under seed 0: {agreeing['0']}, 1: {agreeing['1']}"
    return judged(ASKED, measured, is_met, turns=num_turns)


async def leave(url: str, body: dict[str, object]) -> None:
    async with ClientSession() as session:
        await ask_and_leave(session, url, body, 1.5)


def replay(journals: list[Path], hash_key: Path, seed: str) -> tuple[int, list[int]]:
    """Exit code, and the turns of each journal of which all commands agree."""
    command = [*BATON, "replay", "--hash-key", str(hash_key), *map(str, journals)]
    done = run(command, LIMIT_S, {"PYTHONHASHSEED": seed})
    turns = [int(count) for count in re.findall(r"(\d+) turns agree", done.output)]
    return done.code, turns if done.code == 0 else turns[:-1]
