import pytest

from punctual import schedules
from punctual.occurrences.admission.capacity import starts_left


@pytest.mark.req("CHX-13")
@pytest.mark.parametrize(("starts", "left"), [(0, 3), (2, 1), (3, 0), (9, 0)])
def test_max_bounds_the_starts(starts: int, left: int) -> None:
    assert starts_left(schedules.parse("@hourly {max:3}"), starts) == left
    assert starts_left(schedules.parse("@hourly"), starts) is None
