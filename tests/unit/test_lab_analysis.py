"""What an experiment says of grades whose error rates are planted."""

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.analysis import Findings, Key, analyse
from lab.pictures import COLOURS, draw
from lab.plan import Plan
from lab.stock import Grade

PLAN = Plan(
    seed=7,
    lengths=(1, 2, 4, 8),
    instances=40,
    conditions=("model-adds",),
    attempts=4,
    retry_length=4,
    endpoint="measured",
    model="clerk",
    at_once=1,
)
ONCE = PLAN.model_copy(update={"attempts": 1})
"""Without a study of retries."""
CHAIN = ONCE.model_copy(update={"lengths": (6,), "retry_length": 6})
"""One length, which takes no fit."""
Make = Callable[[random.Random, int, int], Grade]
"""A grade by chance, length and instance."""


def grade(lookups: list[bool], total: bool, outcomes: list[bool] | None = None) -> Grade:
    """A grade of a run that looks up once a turn; one whose look-ups are not all right has no right total."""
    turns = tuple((right,) for right in (lookups if outcomes is None else outcomes))
    return Grade(tuple(lookups), all(lookups) and total, 1, turns)


def analysed(make: Make, plan: Plan = PLAN, seed: int = 0) -> Findings:
    """What is found of a plan whose runs are graded so."""
    grades: dict[Key, Grade] = {}
    for length in plan.lengths:
        for instance in range(1, plan.instances + 1):
            for attempt in range(1, (plan.attempts if length == plan.retry_length else 1) + 1):
                chance = random.Random(f"{seed}/{length}/{instance}/{attempt}")
                grades["model-adds", length, instance, attempt] = make(chance, length, instance)
    (found,) = analyse(plan, grades)
    return found


def independent(p: float) -> Make:
    """Each look-up is right with the same chance, and the total where all are."""
    return lambda chance, length, _: grade([chance.random() < p for _ in range(length)], True)


def tiring(chance: random.Random, length: int, _instance: int) -> Grade:
    """Right at first, and ever less often the longer it goes on."""
    return grade([chance.random() < 1 - 0.035 * number for number in range(length)], True)


@pytest.mark.parametrize("p", [0.8, 0.9, 0.97])
def test_independent_steps_are_recovered_and_not_refuted(p: float) -> None:
    fitted = kept = 0
    for seed in range(20):
        found = analysed(independent(p), ONCE, seed=seed)
        assert found.fit is not None
        fitted += found.fit.interval.low <= p <= found.fit.interval.high
        kept += found.fit.geometric
    assert min(fitted, kept) >= 16  # of intervals of 95 %, fewer than that cover in 1 of 400 such tests


def test_longer_tasks_that_do_worse_than_one_rate_allows_are_told_as_no_geometric_decay() -> None:
    found = analysed(tiring, PLAN.model_copy(update={"lengths": (1, 2, 4, 8, 16), "instances": 200, "attempts": 1}))

    assert found.sentences[0].startswith("The decay is not geometric: a of a p^n is above 1")
    assert "longer tasks do worse than one rate for every step allows" in found.sentences[0]
    assert found.retries is None


def test_an_error_that_does_not_come_with_length_is_told() -> None:
    found = analysed(lambda chance, length, _: grade([True] * length, chance.random() < 0.7))

    assert "some failures do not come with length" in found.sentences[0]
    assert found.culprit is not None
    assert found.culprit.name == "total"
    assert found.culprit.errors.interval.low <= 0.3 <= found.culprit.errors.interval.high


@pytest.mark.parametrize("planted", [1, 3, 7])
def test_the_look_up_where_errors_were_planted_holds_them(planted: int) -> None:
    def make(chance: random.Random, length: int, _: int) -> Grade:
        return grade([number != planted or chance.random() < 0.6 for number in range(1, length + 1)], True)

    found = analysed(make)
    assert found.culprit is not None
    assert found.culprit.name == f"look-up {planted}"
    assert found.culprit.errors.interval.low <= 0.4 <= found.culprit.errors.interval.high
    assert found.sentences[-3].startswith(f"The look-up {planted} stands out: of the runs that came so far ")
    assert "; most, " not in found.sentences[-3]


def test_a_step_that_stands_out_is_told_beside_the_one_where_most_went_wrong() -> None:
    def make(_: random.Random, length: int, instance: int) -> Grade:
        return grade([instance > 20] + [True] * (length - 2) + [length < 8] if length > 1 else [instance > 20], True)

    found = analysed(make, ONCE)
    assert found.culprit is not None
    assert found.culprit.name == "look-up 8"
    assert found.sentences[-2].endswith("These are 20 of all 100 that went wrong; most, 80, did so at the look-up 1.")


def test_where_all_steps_are_alike_none_stands_out() -> None:
    assert sum(analysed(independent(0.9), ONCE, seed=seed).culprit is not None for seed in range(20)) <= 3
    perfect = analysed(independent(1))
    assert perfect.sentences[0].startswith("Nothing failed, which does not refute a geometric decay")
    assert perfect.sentences[2] == "No run went wrong, so no step holds errors."


@pytest.mark.parametrize(("p", "r"), [(0.9, 0.4), (0.8, 0.8), (0.95, 0.1)])
def test_the_chain_of_right_and_wrong_look_ups_is_recovered(p: float, r: float) -> None:
    def make(chance: random.Random, length: int, _: int) -> Grade:
        outcomes: list[bool] = []
        right = True
        while sum(outcomes) < length:
            right = chance.random() < (p if right else r)
            outcomes.append(right)
        return grade([True] * length, True, outcomes)

    counted = mended = 0
    for seed in range(200):
        found = analysed(make, CHAIN, seed=seed)
        counted += found.p.interval.low <= p <= found.p.interval.high
        mended += found.r.interval.low <= r <= found.r.interval.high
    assert min(counted, mended) >= 180  # of intervals of 95 %


def test_look_ups_of_one_turn_come_after_what_the_turn_before_brought() -> None:
    turns = ((True, False, True), (True, True), (False,))
    found = analysed(lambda _, length, __: Grade((True,) * length, True, 1, turns), CHAIN)

    assert (found.p.k, found.p.n) == (2 * 40, 4 * 40)
    assert (found.r.k, found.r.n) == (2 * 40, 2 * 40)


@pytest.mark.parametrize(("q", "hard"), [(0.5, 0.3), (0.35 / 0.725, 0.275), (0.7, 0.0)])
def test_a_hard_fraction_is_recovered_and_none_is_invented(q: float, hard: float) -> None:
    def make(chance: random.Random, length: int, instance: int) -> Grade:
        never = random.Random(f"hard {length} {instance}").random() < hard
        return grade([True] * length, not never and chance.random() < q)

    found = analysed(make, PLAN.model_copy(update={"instances": 120})).retries
    assert found is not None
    assert found.mixture is not None
    interval = found.mixture.interval
    assert interval.low <= hard <= interval.high
    assert (interval.low > 0) is (hard > 0)
    assert found.sentence.startswith("Tasks differ at 4" if hard else "No hard fraction shows at 4")
    assert [rate.k for rate in found.within] == sorted(rate.k for rate in found.within)
    for rate, mixed in zip(found.within, found.mixture.within, strict=True):
        assert rate.value == pytest.approx(mixed, abs=0.08)


@pytest.mark.parametrize("rates", [(0.9, 0.2), (0.8, 0.3)])
def test_tasks_that_seldom_succeed_are_not_told_as_tasks_that_never_do(rates: tuple[float, float]) -> None:
    def make(chance: random.Random, length: int, instance: int) -> Grade:
        return grade([True] * length, chance.random() < rates[instance % 2])

    plan = PLAN.model_copy(update={"lengths": (4,), "instances": 120})
    for seed in range(5):
        found = analysed(make, plan, seed=seed).retries
        assert found is not None
        assert found.sentence.startswith("Tasks differ at 4 look-ups: within 4 attempts ")
        assert "as if " in found.sentence
        assert found.sentence.endswith("do not tell tasks that never succeed from tasks that seldom do.")


def test_where_nothing_succeeds_nothing_is_said_of_decay_or_of_a_hard_fraction() -> None:
    found = analysed(independent(0))

    assert found.fit is None
    assert found.sentences[0] == "Too few lengths had any success: nothing can be said of the decay."
    assert found.retries is not None
    assert found.retries.mixture is None
    assert found.sentences[-1].startswith("Nothing succeeded at 4 look-ups within 4 attempts, so nothing can be said")
    assert b"hard fraction" not in draw([found])["retries"]["svg"]


def test_attempts_that_all_come_out_alike_say_nothing_of_retries() -> None:
    found = analysed(lambda _, length, instance: grade([True] * length, instance > 10)).retries

    assert found is not None
    assert (found.alike, found.mixture) == (True, None)
    assert found.sentence.startswith("All 4 attempts at each task came out alike at 4 look-ups, each step, right at ")


def test_where_too_few_look_ups_came_after_a_wrong_one_no_rate_is_told() -> None:
    found = analysed(lambda _, length, __: grade([True] * (length - 1) + [False], False))

    assert found.r.n == 0
    assert found.sentences[-2].endswith("; of 0 after a wrong one 0 were right, too few for a rate.")


def test_the_line_is_drawn_where_it_was_fitted_and_never_above_one() -> None:
    right = {1: 39, 2: 38, 4: 20, 8: 0}
    found = analysed(lambda _, length, instance: grade([instance <= right[length]] * length, True), ONCE)
    assert found.fit is not None
    assert found.fit.line is not None
    assert found.fit.fitted == [1, 2, 4]
    assert found.fit.line.a * found.fit.line.p > 1
    picture = draw([found])["success"]["svg"].decode()

    drawn = rf'd="(M [^"]*)" clip-path="[^"]*" style="fill: none; stroke: {COLOURS[0]}; '
    bars = [float(path.split()[1]) for path in re.findall(f"{drawn}stroke-width", picture)]
    (curve,) = re.findall(f"{drawn}stroke-linecap", picture)
    across = [float(x) for x in re.findall("[ML] ([0-9.]+) ", curve)]
    assert bars[0] < across[0] < bars[1]
    assert across[-1] == pytest.approx(bars[2])


def test_conditions_that_fail_alike_do_not_hide_each_other_in_the_picture() -> None:
    found = analysed(independent(0), ONCE)
    picture = draw([found, replace(found, condition="add-tool")])["success"]["svg"].decode()

    one, other = (
        set(re.findall(rf'x="([0-9.]+)" y="([0-9.]+)" style="fill: {colour}', picture)) for colour in COLOURS[:2]
    )
    assert len(one) >= len(PLAN.lengths) <= len(other)
    assert not one & other


def test_each_bar_stands_at_its_own_step_where_a_condition_never_came_to_some() -> None:
    plan = ONCE.model_copy(update={"lengths": (1, 4)})
    all_steps = analysed(lambda _, length, __: grade([True] * length, False), plan)
    two = analysed(lambda _, length, __: grade([True] + [False] * (length - 1), False), plan)
    assert [step.name for step in two.steps] == ["look-up 1", "look-up 2", "total"]
    picture = draw([all_steps, replace(two, condition="add-tool")])["errors"]["svg"].decode()

    one, other = (re.findall(rf'd="M ([0-9.]+)[^"]*"[^>]*style="fill: {colour}', picture) for colour in COLOURS[:2])
    assert (len(one), len(other)) == (5, 3)
    assert other == [one[0], one[1], one[4]]
