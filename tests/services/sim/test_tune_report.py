"""What is said of a search, of deployments whose highest rates are made up."""

from __future__ import annotations

import re
from collections.abc import Callable

from baton.core.metrics.goodput import Slo
from baton.core.sim.study.measured import Measured
from baton.core.sim.study.search import Ask, Search
from baton.services.sim.tune_report import Tuned, about, as_data, sentence, table_of
from tests.core.sim.study.made_up import run


def tuned(answer: Callable[[str, float], Measured], most_runs: int = 1000, seeds: tuple[int, ...] = (0, 1, 2)) -> Tuned:
    search = Search(["1P1D", "2U"], {}, lambda each: each, 1.0, seeds, most_runs)
    steps = search.run()
    asked: list[Ask] | None = next(steps)
    while asked:
        try:
            asked = steps.send([answer(ask.candidate.topology, search.rate(ask.step)) for ask in asked])
        except StopIteration:
            break
    return Tuned(search, "requests/s", Slo(ttft_s=1.0), seeds, 2, {}, None, is_interrupted=False)


def test_a_limit_is_told_to_within_a_step() -> None:
    found = tuned(lambda name, rate: run(1.0 if rate <= (4.0 if name == "1P1D" else 3.0) else 0.4))
    assert "to within 5 % for the best settings" in about(found)
    assert re.fullmatch(
        r"1P1D holds 3.92 requests/s and serves 10 ± 0 good requests/s, 2U holds 2.93.", sentence(found)
    )


def test_a_share_that_falls_and_rises_again_is_told_with_what_would_help() -> None:
    def answer(name: str, rate: float) -> Measured:
        return run(1.0 if rate <= 8.0 and not 5.1 <= rate <= 5.4 else 0.5)

    found = tuned(answer)
    text = sentence(found)
    assert text.startswith("1P1D holds 5 requests/s and serves")
    assert (
        "1P1D does not hold 5.25, but again 6.39 to 7.76: with 100 requests and 3 seeds its share of good ones does "
        "not fall evenly with the rate; more of either would tell more"
    ) in text
    assert "to within 5 %" in about(found)
    assert [row[:3] for row in table_of(found).rows] == [
        [each, "5", "5.25 (holds 6.39 to 7.76)"] for each in ("1P1D", "2U")
    ]
    first = as_data(found)["candidates"][0]
    assert (first["holds"], first["fails_at"]) == (5.0, 5.25)
    assert min(first["holds_again"]) == 6.39


def test_a_limit_that_is_not_known_to_within_a_step_is_a_range() -> None:
    found = tuned(lambda name, rate: run(1.0 if rate <= 4.0 else 0.4), most_runs=14)
    text = sentence(found)
    assert found.search.is_out_of_runs
    assert "1P1D has its limit between 3.23 and 4.76" in text
    assert "its runs were used up" in text
    assert "within 5 %" not in about(found)


def test_a_load_that_is_too_small_is_told_in_place_of_a_limit() -> None:
    def answer(name: str, rate: float) -> Measured:
        return run(1.0 if name == "1P1D" or rate <= 2.0 else 0.4, arriving=1 / (1 + rate))

    found = tuned(answer, seeds=(0, 1))
    text = sentence(found)
    assert "the load is too small to find the limit of 1P1D: at that rate it comes as one burst" in text
    assert "which of them" not in text
    assert "2 runs tell little" in about(found)
    assert [each["is_load_too_small"] for each in as_data(found)["candidates"]] == [True, False]
