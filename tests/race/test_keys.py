"""Concurrent triggers with one idempotency key: one creates the occurrence, the others return it."""

from datetime import UTC, datetime
from functools import partial

import pytest

from punctual.jobs.errors import DefinitionError
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


@pytest.mark.postgres
@pytest.mark.req("TSK-4")
def test_of_concurrent_triggers_with_one_key_and_different_arguments_one_wins_and_the_others_are_refused(
    transactional_db: None,
) -> None:
    job = saved(a_job("job", NOW))

    def request(order: int) -> str:
        try:
            return str(trigger(job, args={"order": order}, now=NOW, idempotency_key="order"))
        except DefinitionError as error:
            return error.field

    answers = at_once(*(partial(request, order) for order in range(8)))
    assert answers.count("idempotency_key") == 7
    assert str(Occurrence.objects.get().id) in answers
    assert IdempotencyKey.objects.get().occurrence_id == Occurrence.objects.get().id
