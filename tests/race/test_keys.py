"""Concurrent triggers with one idempotency key: one creates the occurrence, the others return it."""

from datetime import UTC, datetime
from functools import partial

import pytest

from punctual.occurrences.models import IdempotencyKey, Occurrence
from punctual.occurrences.operator import trigger
from tests.occurrences.factories import a_job, saved
from tests.race.threads import at_once

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.postgres
@pytest.mark.req("TSK-4")
def test_one_of_eight_concurrent_triggers_creates_and_the_others_return_it(transactional_db: None) -> None:
    job = saved(a_job("job", NOW))
    for number in range(5):
        call = partial(trigger, job, args={}, now=NOW, idempotency_key=f"order-{number}")
        found = at_once(*([call] * 8))
        assert len(set(found)) == 1
    assert Occurrence.objects.count() == IdempotencyKey.objects.count() == 5
