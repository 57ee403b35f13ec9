"""`baton compare` and `baton tune` answer an operator's questions: who is better, why, and which settings to take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from baton.services.sim import compare, tune
from tests.accept.commands import BATON, Done, run
from tests.accept.row import Options, Row, judged

LIMIT_S = 900.0
H100 = ("--profile", "h100-llama70b-tp8")
A100 = ("--profile", "a100-opt13b-tp1", "--set", "executor.piece_bytes=67108864")
BALANCED = "input_tokens=normal:700,100,400-1000 output_tokens=60"
DECODE_HEAVY = "input_tokens=128 output_tokens=200"


def compared(options: Options) -> Row:
    asked = (
        "baton compare says that 1P1D loses to 2U where the prefill executor has nothing to do, that it wins where "
        "prompts would hold up answers, and why; with 95 % intervals, as JSON, CSV and a page"
    )
    num_requests = 160 if options.quick else 300
    cases = (("2U", H100, "tpot=49ms", "4,8", DECODE_HEAVY), ("1P1D", A100, "ttft=2s,itl=80ms", "1:8:2x", BALANCED))
    is_met, said = True, []
    for better, profile, slo, rates, load in cases:
        told = ("--topology", "1P1D", "--slo", slo, "--rates", rates)
        synthetic = ("--synthetic", f"num_requests={num_requests} {load}")
        done, found = study("compare", compare.FILES, (*profile, *told, *synthetic))
        verdict = found.get("verdict", {})
        regions = verdict.get("better") or [{}]
        is_met = is_met and done.code == 0 and regions[-1].get("name") == better and bool(verdict.get("reason"))
        said.append(verdict.get("sentence") or f"ended with {done.code}: {done.last_line}")
    return judged(asked, " | ".join(said), is_met)


def tuned(options: Options) -> Row:
    asked = (
        "baton tune finds, of 2 executors, the settings that hold the highest rate within the SLO, as a file that "
        "`baton up --config` reads; the frontier as JSON, CSV and a page"
    )
    num_requests = 120 if options.quick else 200
    told = ("--executors", "2", "--slo", "ttft=2s,itl=80ms", "--knobs", "decode.num_slots=32 unified.token_budget=512")
    synthetic = ("--synthetic", f"num_requests={num_requests} {BALANCED}")
    done, found = study("tune", tune.FILES, (*A100, *told, *synthetic))
    tried = [each for each in found.get("candidates", []) if each["holds"] is not None]
    best = [each["holds"] for each in tried if best_of(found, each)]
    is_found = bool(best) and best[0] == max(each["holds"] for each in tried)
    is_met = done.code == 0 and is_found and all(found["frontier"].values())
    return judged(asked, found.get("sentence") or f"ended with {done.code}: {done.last_line}", is_met)


def best_of(found: dict[str, Any], candidate: dict[str, Any]) -> bool:
    """Whether this is what is recommended, and a higher rate was tried that it does not hold."""
    best = found["best"]
    is_it = (candidate["topology"], candidate["knobs"]) == (best["topology"], best["knobs"])
    return is_it and candidate["fails_at"] is not None


def study(name: str, files: Sequence[str], arguments: Sequence[str]) -> tuple[Done, dict[str, Any]]:
    """How it ended, and its JSON; empty where a file is missing."""
    with TemporaryDirectory(prefix="accept-") as folder:
        done = run([*BATON, name, *arguments, "--out", folder], LIMIT_S)
        written = [Path(folder) / file for file in files]
        if not all(path.is_file() and path.stat().st_size for path in written):
            return done, {}
        return done, json.loads(written[0].read_text(encoding="utf-8"))
