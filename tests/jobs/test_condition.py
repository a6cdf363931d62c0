from datetime import UTC, datetime

import pytest

from punctual.jobs.condition import Condition, condition, in_condition
from punctual.jobs.declaration.registry import registry
from punctual.jobs.models import Job, Origin
from tests.occurrences.factories import a_job, a_task, saved

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.django_db
@pytest.mark.req("JOB-4")
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"origin": Origin.CODE}, Condition.UNRESOLVED),
        ({"origin": Origin.POLLING}, Condition.ACTIVE),
        ({"origin": Origin.POLLING, "paused_at": NOW}, Condition.PAUSED),
        ({"origin": Origin.POLLING, "enabled": False}, Condition.DISABLED),
        ({"origin": Origin.CODE, "removed_at": NOW}, Condition.REMOVED),
    ],
)
def test_condition_and_filter_agree(row: dict[str, object], expected: Condition) -> None:
    job = saved(a_job("job", NOW, **row))
    task = saved(a_task(job, "step"))
    with registry.isolated():
        assert condition(job, [task]) is expected
        conditions = [name for name in Condition.values if Job.objects.filter(in_condition(name)).exists()]
    assert conditions == [expected]
