from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.jobs.config.cascade import Config
from punctual.jobs.config.choices import Recovery
from punctual.occurrences.planning.catchup_policy import to_execute

pytestmark = pytest.mark.req("REC-1")

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MISSED = [NOW - n * 10 * MINUTE for n in range(6, 0, -1)]  # 60, 50 … 10 minutes ago


def ages_to_run(recovery: str, **bounds: Any) -> list[int]:
    """The ages in minutes of the instants that still run."""
    config = Config(recovery=Recovery(recovery), **bounds)
    return sorted(((NOW - instant) // MINUTE for instant in to_execute(config, MISSED, NOW)), reverse=True)


@pytest.mark.parametrize(
    ("recovery", "bounds", "minutes"),
    [
        ("execute_all", {}, [60, 50, 40, 30, 20, 10]),
        ("execute_last", {}, [10]),
        ("mark_as_missed", {}, []),
        ("bounded_window", {}, [60, 50, 40, 30, 20, 10]),
        ("bounded_window", {"recovery_max_occurrences": 2}, [20, 10]),
        ("bounded_window", {"recovery_max_occurrences": 99}, [60, 50, 40, 30, 20, 10]),
        ("bounded_window", {"recovery_max_duration": 30 * MINUTE}, [30, 20, 10]),
        ("bounded_window", {"recovery_max_duration": 9 * MINUTE}, []),
        ("bounded_window", {"recovery_max_duration": 45 * MINUTE, "recovery_max_occurrences": 2}, [20, 10]),
        ("bounded_window", {"recovery_max_duration": 15 * MINUTE, "recovery_max_occurrences": 3}, [10]),
        # The bounds belong to `bounded_window`; other policies ignore them.
        ("execute_all", {"recovery_max_occurrences": 1}, [60, 50, 40, 30, 20, 10]),
    ],
)
def test_each_policy_keeps_its_part(recovery: str, bounds: dict[str, Any], minutes: list[int]) -> None:
    assert ages_to_run(recovery, **bounds) == minutes


@pytest.mark.parametrize("recovery", Recovery)
def test_nothing_missed_is_nothing_to_run(recovery: Recovery) -> None:
    assert to_execute(Config(recovery=recovery), [], NOW) == frozenset()


@given(
    st.sampled_from(Recovery),
    st.lists(st.integers(1, 10_000), unique=True, max_size=50),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 10_000),
)
def test_the_newest_missed_instants_within_the_bounds_run(
    recovery: Recovery, minutes: list[int], most: int | None, span: int | None
) -> None:
    missed = [NOW - item * MINUTE for item in minutes]
    config = Config(
        recovery=recovery,
        recovery_max_occurrences=most,
        recovery_max_duration=None if span is None else span * MINUTE,
    )
    keep = to_execute(config, missed, NOW)
    assert keep <= set(missed)
    dropped = set(missed) - keep
    assert not keep or not dropped or max(dropped) < min(keep), (
        "an older instant never runs instead of a newer one"
    )
    if recovery is Recovery.BOUNDED_WINDOW:
        assert most is None or len(keep) <= most
        assert span is None or all(instant >= NOW - span * MINUTE for instant in keep)
