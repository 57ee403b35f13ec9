"""Makes the sample traces that ship with the package, from a seed: nobody's recordings, only their formats.

`sample`: chats in Mooncake's format, 300 requests in five minutes. A few system prompts, which most chats share, and
chats of several turns, each of which repeats what was said before it.
`sample-sessions`: agents' sessions in the packed format. A turn waits for the one before it, and some begin subagents.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "services" / "loadgen" / "traces" / "samples"
BLOCK_SIZE = 512  # of Mooncake's format
NUM_REQUESTS, LENGTH_S = 300, 300.0
NUM_SESSIONS, SESSION_BLOCK = 24, 64


def chats(rng: Random) -> list[dict[str, Any]]:
    """Rows in the order of their times."""
    system_prompts = [range(100 * number, 100 * number + blocks) for number, blocks in enumerate((2, 4, 1))]
    next_block, rows = 1000, []
    while len(rows) < NUM_REQUESTS:
        shared = system_prompts[rng.choices((0, 1, 2), (5, 3, 2))[0]]
        ids, length, at_ms = list(shared), len(shared) * BLOCK_SIZE, rng.uniform(0, LENGTH_S * 1000)
        for _ in range(min(1 + int(rng.expovariate(0.5)), 8)):
            length += _length(rng, 180, 0.8, 4, 1500)
            while len(ids) * BLOCK_SIZE < length:
                ids.append(next_block)
                next_block += 1
            output = _length(rng, 140, 0.7, 4, 800)
            if at_ms > LENGTH_S * 1000:
                break
            rows.append(
                {"timestamp": int(at_ms), "input_length": length, "output_length": output, "hash_ids": list(ids)}
            )
            ids = ids[: length // BLOCK_SIZE]  # the block that the answer fills up is another one in the next turn
            length += output
            at_ms += output * 30 + rng.expovariate(1 / 12_000)
    return sorted(rows, key=lambda row: row["timestamp"])[:NUM_REQUESTS]


def sessions(rng: Random) -> list[dict[str, Any]]:
    return [
        {"id": f"session-{number:02}", "block_size": SESSION_BLOCK, "requests": _turns(rng, number, may_split=True)}
        for number in range(NUM_SESSIONS)
    ]


def _turns(rng: Random, number: int, may_split: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    length, blocks, t, next_block = _length(rng, 1500, 0.4, 500, 6000), 0, 0.0, (0 if may_split else 100_000)
    for turn in range(rng.randrange(4, 13)):
        wanted = -(-length // SESSION_BLOCK)
        keep = blocks  # the full ones of the turn before
        think_s = round(min(rng.lognormvariate(0.3, 1.0), 30.0), 2) if turn else 0.0
        output = _length(rng, 90, 0.9, 5, 700)
        api_s = round(0.4 + output * 0.02, 2)
        found.append({
            "type": "s", "t": round(t + think_s, 2), "in": length, "out": output, "api_time": api_s,
            "think_time": think_s, "keep": keep, "new": [[next_block, wanted - keep]] if wanted > keep else [],
        })  # fmt: skip
        next_block += wanted - keep
        if may_split and turn == 2 and number % 6 == 0:
            agent = {"type": "subagent", "t": found[-1]["t"], "agent_id": f"agent-{number}"}
            found.append(agent | {"requests": _turns(rng, number, may_split=False)})
        blocks, t = length // SESSION_BLOCK, t + think_s + api_s
        length += output + _length(rng, 220, 0.9, 10, 3000)
    return found


def _length(rng: Random, median: float, sigma: float, least: int, most: int) -> int:
    return int(min(max(median * rng.lognormvariate(0.0, sigma), least), most))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, rows in (("sample", chats(Random(1))), ("sample-sessions", sessions(Random(2)))):
        text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        (FOLDER / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
