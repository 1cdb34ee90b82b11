"""Budgets from measurements, against simulated runs whose true budgets are known."""

import asyncio
import json
import math
import random
import sys
import time
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, insert

from client.main import longshift as command_line
from lab.budgets import Budget, TooFew, budget_within, propose
from lab.formulas import EXTRA, budget_for
from lab.needs import Measured
from longshift.limits import Limits
from longshift.status import Status
from store.runs import RunFigures
from store.tables import MODEL_CALLS, RUNS
from tests.store.shift import made
from worker.settings import load_settings

Draw = Callable[[random.Random], float]


def geometric(f: float) -> Draw:
    """Steps until one ends the run, each with the same chance."""
    return lambda chance: math.ceil(math.log(1 - chance.random()) / math.log(1 - f)) or 1


def humped(chance: random.Random) -> float:
    """Steps that gather around ten: no geometric shape."""
    return round(chance.gauss(10, 2)) or 1


def measured(draw: Draw, count: int, chance: random.Random, cap: Draw = lambda _: math.inf) -> list[Measured]:
    """Runs, each cut off where its cap is reached before its end."""
    drawn = [(draw(chance), cap(chance)) for _ in range(count)]
    return [Measured(min(needs, most), needs <= most) for needs, most in drawn]


def run(number: int, agent: str = "shop", status: str | None = Status.COMPLETED, calls: int = 3) -> RunFigures:
    """A run as the journal sums it up."""
    return RunFigures(
        run_id=f"run-{number}",
        agent=agent,
        endpoint="local",
        model="m",
        opened_at=1000.0,
        closed_at=None if status is None else 1000.0 + 2.5 * calls,
        status=status,
        detail=None,
        limits=Limits(),
        model_calls=calls,
        tool_calls=calls - 1,
        output_tokens=10 * calls,
        charged_tokens=10 * calls,
        tokens_before=10 * (calls - 1),
        exposure=0,
        budget_needed=0,
        last_at=1000.0 + 2 * calls,
        held=(),
    )


@pytest.mark.parametrize(("f", "count", "cap"), [(0.3, 250, math.inf), (0.5, 300, 4), (0.2, 300, 8)])
def test_the_geometric_fit_finds_the_true_budget_within_its_interval(f: float, count: int, cap: float) -> None:
    true, chance = budget_for(f, 0.01), random.Random(f"{f} {count}")
    covered = fitted = 0
    for _ in range(100):
        found = budget_within(measured(geometric(f), count, chance, lambda _: cap), 0.99)
        if isinstance(found, Budget):
            fitted += 1
            beyond = ", if the shape holds beyond what was seen"
            assert found.way == f"geometric fit{beyond if cap < true else ''}"
            covered += found.low <= true <= found.high
    assert fitted >= 85  # the test refutes the truth in about 5 of 100
    assert covered / fitted >= 0.9


def test_runs_that_used_none_count_in_the_share_and_not_in_the_shape() -> None:
    def some_use(chance: random.Random) -> float:
        return geometric(0.5)(chance) if chance.random() < 0.2 else 0

    true = 5  # of a fifth a 32nd goes past it, and past 4 a 16th
    covered = fitted = 0
    for number in range(100):
        found = budget_within(measured(some_use, 350, random.Random(number)), 0.99)
        if isinstance(found, Budget):
            fitted += 1
            covered += found.low <= true <= found.high
    assert fitted >= 85
    assert covered / fitted >= 0.9


def test_runs_that_used_none_show_no_shape() -> None:
    used = [0] * 180 + [1] * 10 + [2] * 5 + [3] * 3 + [4, 5]
    few = budget_within([Measured(one, True) for one in used], 0.99)

    assert isinstance(few, TooFew)
    assert few.why == "200 runs finished, 20 of them used any; no shape shows in fewer than 30"
    assert (few.needs, few.at_best) == (381, 300)
    fewer = budget_within([Measured(one, True) for one in [0] * 195 + used[-5:]], 0.99)
    assert isinstance(fewer, TooFew)
    assert fewer.takes == "it needs about 381 finished runs"


SHAPES: dict[str, Draw] = {
    "geometric": geometric(0.3),
    "long and geometric": geometric(0.05),
    "one more than geometric": lambda chance: 1 + geometric(0.3)(chance),
    "humped": humped,
    "exponential": lambda chance: chance.expovariate(1 / 40),
    "uniform": lambda chance: 60 * chance.random(),
}


@pytest.mark.parametrize(("within", "count"), [(0.9, 40), (0.95, 60), (0.99, 250), (0.99, 400)])
@pytest.mark.parametrize("shape", SHAPES)
def test_in_the_mean_no_less_than_the_share_of_further_runs_finishes(shape: str, within: float, count: int) -> None:
    draw, chance = SHAPES[shape], random.Random(f"{shape} {within} {count}")
    further = sorted(draw(chance) for _ in range(20_000))
    finishing = []
    for _ in range(60):
        runs = measured(draw, count, chance)
        step = 1 if float(runs[0].used).is_integer() else max(one.used for one in runs) / 100
        found = budget_within(runs, within, step=step)
        if isinstance(found, Budget):
            finishing.append(bisect_right(further, found.value) / len(further))
    if finishing:
        error = stdev(finishing) / math.sqrt(len(finishing)) if len(finishing) > 1 else 0
        assert fmean(finishing) >= within - 2 * error
    else:  # without a shape they are too few
        assert count < 4 * within / (1 - within)


@pytest.mark.parametrize(("most", "usual", "rare"), [(0.95, 0.5, 0.05), (0.9, 0.4, 0.08)])
def test_runs_with_a_rare_long_kind_among_them_seldom_pass_for_geometric(
    most: float, usual: float, rare: float
) -> None:
    def mixed(chance: random.Random) -> float:
        return geometric(usual if chance.random() < most else rare)(chance)

    chance = random.Random(f"{most} {usual} {rare}")
    found = [budget_within(measured(mixed, count, chance), 0.99) for count in (40, 100, 199, 200, 300) * 20]
    assert sum(isinstance(one, Budget) for one in found) <= 4


def test_the_curve_finds_the_true_budget_of_any_shape_within_its_interval() -> None:
    chance = random.Random("humped")
    true = sorted(humped(chance) for _ in range(100_000))[95_000]
    covered = 0
    for _ in range(60):
        # A fifth is cut off somewhere, whatever it would have needed.
        runs = measured(humped, 250, chance, lambda c: c.uniform(1, 60))
        found = budget_within(runs, 0.95)
        assert isinstance(found, Budget)
        assert found.way == "Kaplan-Meier"
        covered += found.low <= true <= found.high
    assert covered >= 54


def test_leaving_out_the_runs_that_were_cut_off_would_tell_too_low_a_budget() -> None:
    runs = measured(geometric(0.2), 400, random.Random(7), lambda _: 6)
    found, blind = budget_within(runs, 0.99), sorted(one.used for one in runs if one.finished)[-1]

    assert isinstance(found, Budget)
    assert found.way.endswith("if the shape holds beyond what was seen")
    assert blind == 6
    assert found.low <= budget_for(0.2, 0.01) == 21 <= found.high


@given(seed=st.integers(0, 2**32), count=st.integers(1, 500), within=st.floats(0.5, 0.995), cap=st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_a_budget_lies_in_its_interval_and_a_refusal_names_more_than_there_is(
    seed: int, count: int, within: float, cap: int
) -> None:
    runs = measured(humped if seed % 2 else geometric(0.3), count, random.Random(seed), lambda _: cap)
    found = budget_within(runs, within)

    if isinstance(found, Budget):
        assert 0 < found.low <= found.value <= found.high
    else:
        assert found.needs > sum(one.finished for one in runs)


def test_without_a_shape_it_takes_as_many_runs_as_it_says() -> None:
    def alike(count: int) -> list[Measured]:
        return [Measured(3, True)] * count

    few = budget_within(alike(200), 0.99)
    assert isinstance(few, TooFew)
    assert (few.needs, few.takes) == (381, "it needs about 381 finished runs")
    assert few.why.startswith("not every step has the same chance to be the last")
    assert budget_within(alike(few.needs), 0.99) == Budget(3, 3, 3, "Kaplan-Meier")
    assert isinstance(budget_within(alike(few.needs - 1), 0.99), TooFew)


def test_a_tail_that_limits_hide_is_told_apart_from_too_few_runs() -> None:
    hidden = budget_within(measured(humped, 2000, random.Random(3), lambda _: 11), 0.99)

    assert isinstance(hidden, TooFew)
    assert "hide where the last ones finish; raise the limits" in hidden.why


def test_limits_are_proposed_as_a_section_that_the_configuration_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(11)
    runs = [run(number, calls=int(geometric(0.3)(chance))) for number in range(900)]
    runs += [run(900, status=Status.MODEL_CALL_LIMIT, calls=8), run(901, status=None, calls=2), run(902, agent="buyer")]
    proposal = propose("shop", runs, 0.99)

    section = tomllib.loads(proposal.toml)["agents"]["shop"]["limits"]
    assert section == proposal.limits
    assert set(section) == {"model_calls", "tool_calls", "total_output_tokens", "seconds"}
    assert load_settings(written(proposal.toml), {}).agents["shop"].limits == section
    assert abs(section["model_calls"] - budget_for(0.3, 0.01)) <= 3
    assert section["total_output_tokens"] == 10 * section["model_calls"]
    assert section["seconds"] == 2.5 * section["model_calls"]
    assert (proposal.runs, proposal.finished) == (902, 900)
    assert "# model_budget_cents: no budget refuses its calls: nothing was spent" in proposal.toml
    assert proposal.document()["cut_off"] == 2


@pytest.mark.parametrize(("count", "why"), [(12, "no shape shows in fewer than 30"), (40, "0.99 is further out")])
def test_nothing_is_proposed_of_too_few_runs(count: int, why: str) -> None:
    proposal = propose("shop", [run(number) for number in range(count)], 0.99)

    takes = "it needs about 200 finished runs if every step has the same chance, else 381"
    assert proposal.refusal is not None
    assert proposal.refusal.startswith(f"model_calls: {count} runs finished; {why}")
    assert f"; {takes}, there are {count} of {count}: measure more" in proposal.refusal
    assert f"; {takes}\n" in proposal.toml
    found = proposal.document()["limits"]["model_calls"]  # type: ignore[index]
    assert (found["needs"], found["at_best"]) == (381, 200)


def test_the_command_refuses_in_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHIFT_JOURNAL__URL", f"sqlite:///{tmp_path}/none.db")
    monkeypatch.chdir(tmp_path)

    def refused(*words: str) -> str:
        ended = CliRunner().invoke(command_line, ["lab", "budgets", *words])
        assert ended.exit_code == 2
        return ended.output

    told = refused("--agent", "Shop", "--within", "1")
    assert "--agent: give an agent's name" in told
    assert "--within: give a share above 0 and below 1" in told
    assert "--since: write a number and m, h, d or w" in refused("--agent", "shop", "--since", "soon")


def test_the_command_reads_the_journal_and_says_where_scipy_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    monkeypatch.setenv("LONGSHIFT_JOURNAL__URL", url)
    monkeypatch.chdir(tmp_path)
    asyncio.run(made(url))
    fill(url, [int(geometric(0.4)(random.Random(number))) for number in range(250)], opened_at=time.time() - 3600)

    ended = CliRunner().invoke(command_line, ["lab", "budgets", "--agent", "shop"])
    assert ended.exit_code == 0
    assert tomllib.loads(ended.output)["agents"]["shop"]["limits"]["model_calls"] >= 5
    document = json.loads(CliRunner().invoke(command_line, ["lab", "budgets", "--agent", "shop", "--json"]).output)
    assert (document["runs"], document["finished"]) == (250, 250)
    assert document["limits"]["model_calls"]["way"] == "geometric fit"

    ended = CliRunner().invoke(command_line, ["lab", "budgets", "--agent", "nobody"])
    assert (ended.exit_code, "it has runs of: shop" in ended.output) == (2, True)
    ended = CliRunner().invoke(command_line, ["lab", "budgets", "--agent", "shop", "--since", "30m"])
    assert (ended.exit_code, "it has runs of: none" in ended.output) == (2, True)
    monkeypatch.setitem(sys.modules, "scipy", None)
    ended = CliRunner().invoke(command_line, ["lab", "budgets", "--agent", "shop"])
    assert ended.exit_code == 2
    assert ended.output == f"Error: scipy is not installed; install {EXTRA}\n"


def written(text: str) -> Path:
    """The text in a file of a configuration."""
    file = Path("proposed.toml")
    file.write_text(text, encoding="utf-8")
    return file


def fill(url: str, calls: Sequence[int], opened_at: float) -> None:
    """Enter runs that completed after so many model calls."""
    engine = create_engine(url)
    runs: list[dict[str, object]] = []
    made_calls: list[dict[str, object]] = []
    for number, count in enumerate(calls):
        run_id = f"run-{number}"
        common = {"agent": "shop", "endpoint": "local", "model": "m", "spec": "{}", "length": 0, "digest": ""}
        ended = {"opened_at": opened_at, "closed_at": opened_at + count, "status": "COMPLETED"}
        runs.append({"run_id": run_id, **common, **ended})
        made_calls += [
            {
                "run_id": run_id,
                "number": call,
                "context_length": 0,
                "context_digest": "",
                "tools": True,
                "allowed": 100,
                "estimate": 0,
                "state": "answered",
                "output_tokens": 9,
                "cost": 3,
                "sender": "1/worker-1",
                "started_at": opened_at + call,
            }
            for call in range(1, count + 1)
        ]
    with engine.begin() as connection:
        connection.execute(insert(RUNS), runs)
        connection.execute(insert(MODEL_CALLS), made_calls)
    engine.dispose()
