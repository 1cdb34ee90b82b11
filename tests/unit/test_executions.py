"""How the journal names the execution of an activity."""

from datetime import UTC, datetime, timedelta

import pytest

from longshift.executions import execution, precedes, undated, without_date

RUN = "019ad7f2-2194-7fc9-95b8-12c3c98f4a81"
STARTED = datetime(2026, 12, 1, 2, 30, 55, 123456, UTC)


def test_an_execution_is_named_by_run_activity_and_microsecond() -> None:
    assert execution(RUN, "tool-3.0", STARTED) == "12c3c98f4a81/tool-3.0/1796092255123456"
    assert without_date(execution(RUN, "tool-3.0", STARTED)) == undated(RUN, "tool-3.0") == "12c3c98f4a81/tool-3.0"


@pytest.mark.parametrize("held", [f"{RUN}/model-7", f"{RUN}/model-7/2026-12-01T02:30:55.123456+00:00"])
def test_the_names_of_earlier_versions_are_read(held: str) -> None:
    assert without_date(held) == undated(RUN, "model-7")


@pytest.mark.parametrize(
    "earlier",
    [
        execution(RUN, "tool-3.0", STARTED - timedelta(microseconds=1)),
        execution("another-run", "model-7", STARTED - timedelta(days=9000)),
        f"{RUN}/model-7/2026-12-01T02:30:55.123455+00:00",
    ],
)
def test_the_earlier_of_two_executions_precedes_the_other(earlier: str) -> None:
    later = execution(RUN, "model-7-again-1", STARTED)
    assert precedes(earlier, later)
    assert not precedes(later, earlier)
    assert not precedes(later, later)


@pytest.mark.parametrize("held", ["", "a person", f"{RUN}/model-7", f"{RUN}/7", f"{RUN}/model-7/soon", "9" * 5000])
def test_what_has_no_date_precedes_nothing_and_nothing_precedes_it(held: str) -> None:
    later = execution(RUN, "model-7", STARTED)
    assert not precedes(held, later)
    assert not precedes(later, held)


@pytest.mark.parametrize("held", ["", "a person", f"{RUN}/model-7/soon", f"{RUN}/model-7/2026-12-01", "a/b/c/1"])
def test_what_names_no_execution_stays_as_it_is(held: str) -> None:
    assert without_date(held) == held
