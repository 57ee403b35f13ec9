"""Makes the profiles of published measurements that ship with the package, from the files in $BATON_DATA.

The files are those of two simulators' repositories; which ones, each profile says.
"""

from __future__ import annotations

import csv
import os
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec

from baton.core.sim.step_time.model import KindModel, Piece, StepModel, Term
from baton.core.sim.step_time.profile import KvGeometry, Profile, encode_profile

PROFILES = Path(__file__).resolve().parents[1] / "core" / "sim" / "step_time" / "profiles"
MS = 1e-3


def distserve(data: Path, degree: int, engine: str = "distserve") -> Profile:
    """Prefill a + b·ΣL + c·ΣL², decode a + b·Σcontext + c·batch with two sets of coefficients, in milliseconds.
    `engine`: whose steps, `distserve` or `vllm`."""
    path = data / "distserve" / f"profiler-a100-80g.{engine}.json"
    told: dict[str, Any] = msgspec.json.decode(path.read_bytes())["facebook/opt-13b"][str(degree)]
    constant, token, square = [coefficient * MS for coefficient in told["prefill"]]
    prompt = Piece(
        terms=(Term(s=constant), Term(of="tokens", s=token), Term(of="attention", s=2 * square))  # ΣL² = 2 Σ L·L/2
    )
    with (data / "distserve" / "max_num_tokens.csv").open() as lines:
        capacity = {(row["model"], row["tp"], row["pp"]): int(row["max_num_tokens"]) for row in csv.DictReader(lines)}
    return Profile(
        name=f"a100-opt13b-tp{degree}" if engine == "distserve" else f"a100-opt13b-{engine}-tp{degree}",
        source="DistServe's repository (Apache-2.0), its simulator's coefficients for OPT-13B on A100-80G"
        f"{'' if engine == 'distserve' else f' with {engine}'} and its table of token capacities; mixed steps are"
        " joined here of both kinds",
        kv=KvGeometry(num_kv_layers=40, num_kv_heads=40, head_dim=128),
        kv_tokens=capacity["facebook/opt-13b", str(degree), "1"],
        steps=StepModel(
            prefill=KindModel(pieces=(prompt,)),
            decode=KindModel(
                pieces=(
                    _decodes(told["decoding_smallbs"], float(told["decoding_large_small_bs_threshold"])),
                    _decodes(told["decoding_largebs"], None),
                )
            ),
        ),
        machine={"accelerator": f"{degree} × A100-80G"},
    )


def _decodes(coefficients: list[float], up_to: float | None) -> Piece:
    constant, context, batch = [coefficient * MS for coefficient in coefficients]
    terms = (Term(s=constant), Term(of="context", s=context), Term(of="decodes", s=batch))
    return Piece(terms=terms, up_to=up_to)


def splitwise(data: Path, hardware: str, name: str) -> Profile:
    """Medians of measured prompt and token times, by the batch's tokens and by its size."""
    prompts: dict[int, list[float]] = defaultdict(list)
    decodes: dict[int, list[float]] = defaultdict(list)
    with (data / "splitwise_sim_perf_model.csv").open() as lines:
        for row in csv.DictReader(lines):
            if (row["model"], row["hardware"], row["tensor_parallel"]) == ("llama2-70b", hardware, "8"):
                batch = int(row["batch_size"])
                prompts[batch * int(row["prompt_size"])].append(float(row["prompt_time"]) * MS)
                decodes[batch].append(float(row["token_time"]) * MS)
    return Profile(
        name=name,
        source="splitwise-sim's repository (MIT), its measured prompt and token times for Llama-2-70B on 8"
        f" {hardware}, medians; what was measured does not show the cost of long contexts; mixed steps are joined here"
        " of both kinds",
        kv=KvGeometry(num_kv_layers=80, num_kv_heads=8, head_dim=128),
        kv_tokens=1 << 20,
        steps=StepModel(prefill=_table("tokens", prompts), decode=_table("decodes", decodes)),
        machine={"accelerator": f"8 × {hardware}"},
    )


def _table(of: Any, found: dict[int, list[float]]) -> KindModel:
    """What was measured for fewer and took longer counts as what follows it: no table falls."""
    points: list[tuple[float, float]] = []
    for x in sorted(found, reverse=True):
        y = statistics.median(found[x])
        points.insert(0, (float(x), round(min(y, points[0][1]) if points else y, 6)))
    return KindModel(pieces=(Piece(terms=(Term(of=of, points=tuple(points)),)),))


def main() -> None:
    """Writes them all."""
    data = Path(os.environ["BATON_DATA"])
    profiles = [distserve(data, degree, engine) for engine in ("distserve", "vllm") for degree in (1, 2, 4)]
    profiles.append(splitwise(data, "h100-80gb", "h100-llama70b-tp8"))
    profiles.append(splitwise(data, "a100-80gb", "a100-llama70b-tp8"))
    for profile in profiles:
        (PROFILES / f"{profile.name}.json").write_bytes(encode_profile(profile))
        sys.stdout.write(f"{profile.name}\n")


if __name__ == "__main__":
    main()
