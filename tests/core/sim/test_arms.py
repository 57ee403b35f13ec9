"""Scenarios of arms: what others published is reproduced before anything of ours is shown; the shipped ones do so."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from baton.core.sim.fleet_run.arms import Compared, Figures, scenario_of, split_arms, that_set
from baton.core.sim.fleet_run.figure_names import UnknownFigure
from baton.core.sim.fleet_run.parts import BadParts, load_parts
from baton.core.sim.fleet_run.run import FleetRun
from baton.core.sim.fleet_run.scenario_file import BadScenario, built_in, read_scenario
from baton.services.sim.arms import run_arms
from baton.services.sim.load import load_of
from baton.services.sim.run import simulate

ONE_LOOP = "baton.core.sim.baselines.one_loop:make"


def table(**fields: Any) -> dict[str, Any]:
    asks = [{"at_s": 0.5 * n, "input_tokens": 256, "output_tokens": 8} for n in range(3)]
    return {"name": "t", "topology": "1U", "profile": "a100-opt13b-tp1", "asks": asks} | fields


def shown(told: dict[str, Any]) -> tuple[int, str]:
    arms = split_arms(told)
    assert arms is not None
    text = io.StringIO()
    code = run_arms(told, arms, Console(file=text, width=160), simulate)
    return code, text.getvalue()


@pytest.mark.parametrize("name", ["launch_backpressure", "idle_overlap"])
def test_a_source_scenario_reproduces_what_was_published(name: str) -> None:
    code, text = shown(read_scenario(name))
    assert code == 0, text
    assert "\nours" in text


@pytest.mark.parametrize("name", [name for name in built_in() if "arms" in read_scenario(name)])
def test_every_arm_of_what_ships_is_a_fleet_and_parts_that_there_are(name: str) -> None:
    told = read_scenario(name)
    arms = split_arms(told)
    assert arms is not None
    for scenario in [scenario_of(told, arm) for arm in arms.arms]:
        assert scenario.fleet().groups
        load_parts(scenario.parts, scenario.parts_settings)


def run_of(name: str, arm: str) -> FleetRun:
    told = read_scenario(name)
    arms = split_arms(told)
    assert arms is not None
    scenario = scenario_of(told, next(each for each in arms.arms if each.name == arm))
    return simulate(scenario, load_of(scenario))


def test_h1_the_reversed_order_keeps_ready_chunks_behind_launches_and_ours_does_not() -> None:
    runs = {arm: Figures(run_of("launch_backpressure", arm)) for arm in ("original", "ours")}
    waits = {arm: figures.value("computed→commit.p50") for arm, figures in runs.items()}
    assert waits["original"] > 1.0
    assert waits["ours"] < 1e-3


def test_o1_a_prompt_in_flight_is_noticed_without_another_arrival() -> None:
    first_tokens = {arm: Figures(run_of("idle_overlap", arm)).value("ttft_s.max") for arm in ("original", "ours")}
    assert first_tokens["original"] == pytest.approx(29.7, abs=0.01)  # when somebody else comes
    assert first_tokens["ours"] < 1.0


def test_what_is_off_by_more_than_a_tenth_hides_what_is_ours() -> None:
    arms = [{"name": "theirs", "published": {"ttft_s.p50": 9.0}}, {"name": "ours"}]
    code, text = shown(table(arms=arms))
    assert code == 1
    assert "off" in text
    assert "\nours" not in text


def test_what_could_not_be_calibrated_says_so_and_hides_nothing() -> None:
    arms = [{"name": "theirs", "published": {"ttft_s.p50": 9.0}}, {"name": "ours"}]
    code, text = shown(table(arms=arms, uncalibrated={"theirs: ttft_s.p50": "nobody knows"}))
    assert code == 0
    assert "not calibrated: theirs: ttft_s.p50: nobody knows" in text
    assert "\nours" in text


def test_a_ratio_is_to_the_arm_that_it_names() -> None:
    arms = [
        {"name": "one", "published": {"e2e_s.p50": 0.184}},
        {"name": "two", "over": "one", "published": {"e2e_s.p50 ÷ over": 1.0}},
    ]
    assert shown(table(arms=arms))[0] == 0


def test_every_load_is_given_to_every_arm() -> None:
    loads = [{"name": "short", "set": {"asks": []}}, {"name": "long"}]
    arms = split_arms(table(arms=[{"name": "a"}, {"name": "b", "set": {"seed": 1}}], loads=loads))
    assert arms is not None
    assert [arm.name for arm in arms.arms] == ["short: a", "short: b", "long: a", "long: b"]
    assert arms.arms[1].set == {"asks": [], "seed": 1}
    with pytest.raises(BadScenario, match="loads"):
        split_arms(table(arms=[{"name": "a", "published": {"ttft_s.p50": 1.0}}], loads=loads))


def test_a_setting_is_lost_of_the_arms_that_set_it_themselves_or_its_whole_table() -> None:
    own = [{"name": "a", "set": {"load.rate": 2, "seed": 1}}, {"name": "b", "set": {"load.rate": 3, "load": {}}}]
    arms = split_arms(table(arms=own))
    assert arms is not None
    found = {path: that_set(arms, path) for path in ("load.rate", "load.num_requests", "seed", "topology")}
    assert found == {"load.rate": ["a", "b"], "load.num_requests": ["b"], "seed": ["a"], "topology": []}
    searched = split_arms(table(arms=TWO, goodput={"most": 4.0, "within": 1.0}))
    assert searched is not None
    assert that_set(searched, "load.rate") == [arm.name for arm in searched.arms]


def test_without_published_figures_all_arms_stand_in_one_table() -> None:
    code, text = shown(table(arms=[{"name": "one"}, {"name": "two"}], figures=["ttft_s.p50", "prefill_steps"]))
    assert code == 0
    assert sum(line.count("│") == 4 for line in text.splitlines()) == 2


def test_ten_percent_is_the_limit() -> None:
    assert not Compared("a", "f", 10.0, 10.99, "").is_off
    assert Compared("a", "f", 10.0, 11.01, "").is_off
    assert not Compared("a", "f", 10.0, 20.0, "an excuse").is_off


@pytest.mark.parametrize(
    "arms",
    [[{"name": "a", "over": "b"}], [{"name": "a", "sets": {}}], [{"set": {}}]],
    ids=["over", "unknown", "no name"],
)
def test_broken_arms_are_named(arms: list[Any]) -> None:
    with pytest.raises(BadScenario, match="arms"):
        split_arms(table(arms=arms))


def test_a_figure_that_there_is_not_is_named() -> None:
    with pytest.raises(UnknownFigure, match="no figure 'speed'"):
        Figures(run_of("idle_overlap", "ours")).value("speed")


@pytest.mark.parametrize(
    ("figure", "says"),
    [
        ("tftt_s.p50", "'tftt_s' is no figure; is ttft_s meant?"),
        ("speed", "'speed' is no figure; there are output_tokens_per_s, "),
        ("ttft_s", "say which statistic, such as ttft_s.p50"),
        ("ttft_s.mea", "'mea' is no statistic; is mean meant?"),
        ("computed→activatd.p95", "'activatd' is no stage; is activated meant?"),
        ("kept.tft_s", "'tft_s' is no bound of an SLO; is ttft_s meant?"),
        ("gauge:decode-0", "'gauge:decode-0' is no figure"),
        ("goodput_per_gpu", "only a search of rates gives goodput_per_gpu"),
    ],
)
def test_a_figure_that_no_run_gives_is_told_before_one_is_made(figure: str, says: str) -> None:
    for told in (
        {"figures": [figure]},
        {"arms": [{"name": "a", "published": {figure: 1.0}}]},
        {"orders": [{"figure": figure, "arms": ["fast", "slow"]}]},
    ):
        with pytest.raises((UnknownFigure, BadScenario)) as refused:
            split_arms(table(**({"arms": TWO} | told)))
        assert says in str(refused.value)


def test_a_gauge_of_a_process_that_there_is_not_names_those_there_are() -> None:
    with pytest.raises(UnknownFigure, match="processes are scheduler, router-0"):
        Figures(run_of("idle_overlap", "ours")).value("gauge:decode-9:blocks_free")


def test_parts_that_there_are_not_are_named() -> None:
    with pytest.raises(BadParts, match="order"):
        load_parts(ONE_LOOP, {"order": "sideways"})


# ---- what must hold between arms

TWO = [{"name": "fast"}, {"name": "slow", "set": {"profile": "a100-llama70b-tp8"}}]


def test_an_order_that_holds_is_said_and_one_that_does_not_fails() -> None:
    told = {"arms": TWO, "figures": ["ttft_s.p50"]}
    code, text = shown(table(**told, orders=[{"figure": "ttft_s.p50", "arms": ["fast", "slow"]}]))
    assert code == 0
    assert "ttft_s.p50: fast" in text
    code, text = shown(table(**told, orders=[{"figure": "ttft_s.p50", "arms": ["slow", "fast"]}]))
    assert code == 1
    assert "does not hold" in text


def test_equal_figures_are_in_no_order() -> None:
    arms = [{"name": "one"}, {"name": "two"}]
    assert shown(table(arms=arms, orders=[{"figure": "ttft_s.p50", "arms": ["one", "two"]}]))[0] == 1


@pytest.mark.parametrize("order", [["fast", "slower"], ["fast"]])
def test_an_order_of_arms_that_are_not_there_is_named(order: list[str]) -> None:
    with pytest.raises(BadScenario):
        split_arms(table(arms=TWO, orders=[{"figure": "ttft_s.p50", "arms": order}]))


# ---- the highest rate that keeps the SLO

LOAD = {"num_requests": 40, "input_tokens": "512", "output_tokens": "4", "arrivals": "constant"}


def searched(**fields: Any) -> dict[str, Any]:
    """A step of one prompt takes 72.1 ms and nothing shares it: an evenly spaced load keeps 80 ms up to 13.8/s."""
    told = table(load=LOAD, slo="ttft=80ms", executor={"token_budget": 512}, unified={"step_mode": "alternate"})
    del told["asks"]
    told["load"] = LOAD | {"output_tokens": "1"}
    return told | {"goodput": {"most": 20.0, "within": 0.2}, "figures": ["goodput_per_gpu", "kept.ttft_s"]} | fields


def test_an_arm_is_run_at_its_highest_rate_and_told_for_each_accelerator() -> None:
    arms = [
        {"name": "one", "published": {"goodput_per_gpu": 13.8}},
        {"name": "one of two", "gpus": 2, "published": {"goodput_per_gpu": 6.9}},
        {"name": "two", "gpus": 2, "set": {"topology": "2U"}, "published": {"goodput_per_gpu": 13.8}},
    ]
    code, text = shown(searched(arms=arms))
    assert code == 0, text
    assert text.count("kept.ttft_s") == 3


def test_an_slo_that_no_rate_keeps_gives_0_and_none_is_an_error() -> None:
    code, text = shown(searched(arms=[{"name": "one"}], slo="ttft=1ms"))
    assert code == 0
    assert "│ one │               0 │" in text
    with pytest.raises(BadScenario, match="slo"):
        shown(searched(arms=[{"name": "one"}], slo=""))


def test_prefill_on_two_accelerators_and_decode_on_one_serve_more_than_one_each() -> None:
    told = read_scenario("distserve_opt13b")
    told["arms"] = [arm for arm in told["arms"] if arm["name"] in ("P TP2, D TP1", "P TP1, D TP1")]
    told["orders"] = [order for order in told["orders"] if order["arms"][0] == "P TP1, D TP1"]
    told["load"]["num_requests"] = 60
    told["goodput"]["within"] = 1.0
    assert len(told["orders"]) == 1
    code, text = shown(told)
    assert code == 0, text
