import logging
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from punctual import Job as DeclaredJob
from punctual.execution.ending.hooks import call_complete_hooks, call_start_hooks
from punctual.jobs.declaration.registry import Registry
from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence
from punctual.occurrences.states import OccurrenceState
from tests.execution.conftest import NOW
from tests.occurrences.factories import an_occurrence, saved

pytestmark = pytest.mark.req("JOB-9")

LATER = NOW + timedelta(minutes=1)
S = OccurrenceState


def fail(argument: Any) -> None:
    raise RuntimeError("the hook is broken")


def test_start_hooks_get_the_occurrence(declared: Registry, job: Job) -> None:
    seen: list[Occurrence] = []
    DeclaredJob("job", "@hourly").on_start(seen.append)
    row = saved(an_occurrence(job, NOW, S.RUNNING))
    call_start_hooks([row.id])
    assert seen == [row]


def test_completion_hooks_get_the_stored_report_and_are_then_settled(declared: Registry, job: Job) -> None:
    seen: list[Any] = []
    DeclaredJob("job", "@hourly").on_complete(seen.append)
    row = saved(an_occurrence(job, NOW, S.COMPLETED, report={"outcome": "completed"}))
    assert call_complete_hooks([row.id], now=LATER) == 1
    assert call_complete_hooks([row.id], now=LATER) == 0
    assert seen == [{"outcome": "completed"}]
    assert Occurrence.objects.get().finalized_at == LATER


@pytest.mark.parametrize("state", [S.FAILED, S.CANCELED, S.FAILED_STALE, S.COMPLETED_WITH_ERRORS])
def test_completion_hooks_are_called_whatever_the_outcome(
    declared: Registry, job: Job, state: OccurrenceState
) -> None:
    seen: list[Any] = []
    DeclaredJob("job", "@hourly").on_complete(seen.append)
    row = saved(an_occurrence(job, NOW, state, report={}))
    call_complete_hooks([row.id], now=LATER)
    assert seen == [{}]


def test_a_failing_hook_stops_neither_the_others_nor_the_outcome(
    declared: Registry, job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []
    declaration = DeclaredJob("job", "@hourly")
    for hook in (fail, seen.append):
        declaration.on_complete(hook)
        declaration.on_start(hook)
    row = saved(an_occurrence(job, NOW, S.COMPLETED, report={}))
    with caplog.at_level(logging.WARNING, logger="punctual"):
        call_start_hooks([row.id])
        assert call_complete_hooks([row.id], now=LATER) == 1
    assert len(seen) == 2
    assert Occurrence.objects.get().state == S.COMPLETED
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert all(message.startswith(f"hook.failed job=job occurrence={row.display_id}") for message in messages)


@pytest.mark.parametrize("state", [S.PENDING, S.DISPATCHED, S.RUNNING])
def test_nothing_is_called_for_what_is_not_over(declared: Registry, job: Job, state: OccurrenceState) -> None:
    DeclaredJob("job", "@hourly").on_complete(fail)
    row = saved(an_occurrence(job, NOW, state))
    assert call_complete_hooks([row.id], now=LATER) == 0
    assert Occurrence.objects.get().finalized_at is None


def test_hooks_of_a_job_that_no_code_declares_do_not_stay_due(declared: Registry, job: Job) -> None:
    row = saved(an_occurrence(job, NOW, S.COMPLETED, report={}))
    call_start_hooks([row.id])
    assert call_complete_hooks([row.id], now=LATER) == 1


def test_without_hooks_or_occurrences_no_query_is_made(
    declared: Registry, job: Job, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    DeclaredJob("job", "@hourly").on_complete(fail)
    with django_assert_num_queries(0):
        call_start_hooks([job.id])
        call_start_hooks([])
        assert call_complete_hooks([], now=NOW) == 0
