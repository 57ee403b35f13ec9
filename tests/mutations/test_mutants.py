"""Each planted defect must be found by the fuzzer: what has shown to find nothing wrong must find what is wrong."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CATALOG = Path(__file__).parent / "mutants.toml"
MUTANTS = tomllib.loads(CATALOG.read_text())["mutant"]
SEARCH = (1, 60)  #: seeds that are tried where the remembered one finds nothing any more
FUZZ = "import sys; from baton.services.sim.fuzz import main; sys.exit(main(sys.argv[1:]))"


def test_there_are_at_least_twenty_of_them_with_names_of_their_own() -> None:
    assert len({mutant["name"] for mutant in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["name"])
def test_the_text_of_a_defect_stands_in_its_module(mutant: dict[str, str]) -> None:
    spec = importlib.util.find_spec(mutant["module"])
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).read_text().count(mutant["old"]) == mutant.get("count", 1)


def found(name: str, first: int, last: int) -> str:
    """What the fuzzer says of these seeds with the defect planted; empty if it finds nothing."""
    arguments = ["--mutant", name, "--catalog", str(CATALOG), "--seeds", f"{first}..{last}", "--patience", "1"]
    done = subprocess.run([sys.executable, "-c", FUZZ, *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 1 and "violations" in done.stdout else ""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["name"])
def test_the_fuzzer_finds_the_defect(mutant: dict[str, int | str]) -> None:
    seed = int(mutant.get("seed", 0))
    assert found(str(mutant["name"]), seed, seed) or found(str(mutant["name"]), *SEARCH)
