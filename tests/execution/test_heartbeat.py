import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from threading import Event

import pytest
from django.db import InterfaceError, OperationalError

from execution.claim import Claim
from execution.heartbeat import heartbeat
from execution.watcher import watcher
from occurrences import transitions
from occurrences.models import TaskRun
from tests.execution.conftest import NOW
from tests.occurrences.ledger import a_job, a_task, saved, started

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("TSK-2")]

LEASE = timedelta(milliseconds=90)


@pytest.fixture
def claim() -> Claim:
    job = saved(a_job("job", NOW))
    _, (run,) = started(job, NOW, saved(a_task(job)))
    assert run.claim_token is not None
    return Claim(run, run.claim_token, 0)


def eventually(answer: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not answer():
        assert time.monotonic() < deadline, "it never happened"


def ticking(*errors: Exception) -> Callable[[], datetime]:
    """A clock that goes on by a second each time it is read, after raising each of these."""
    left = iter(errors)
    seconds: Iterator[int] = iter(range(1, 10**6))

    def clock() -> datetime:
        for error in left:
            raise error
        return NOW + timedelta(seconds=next(seconds))

    return clock


def lease_of(claim: Claim) -> datetime | None:
    return TaskRun.objects.get(id=claim.run.id).lease_until


def test_the_lease_is_renewed_while_the_task_runs_and_not_after(claim: Claim) -> None:
    first = lease_of(claim)
    with heartbeat(claim, clock=ticking(), lease=LEASE) as stop:
        eventually(lambda: lease_of(claim) not in {first, NOW + timedelta(seconds=1) + LEASE})
        assert not stop.is_set()
    last = TaskRun.objects.get(id=claim.run.id)
    assert last.heartbeat_at is not None
    assert last.lease_until == last.heartbeat_at + LEASE


def test_a_short_task_costs_no_renewal(claim: Claim) -> None:
    def never() -> datetime:
        raise AssertionError("a short task must not read the clock")

    before = lease_of(claim)
    with heartbeat(claim, clock=never) as stop:
        assert not stop.is_set()
    assert lease_of(claim) == before


@pytest.mark.req("EXE-10")
def test_a_task_whose_run_was_taken_away_is_told_to_stop(claim: Claim) -> None:
    with heartbeat(claim, clock=ticking(), lease=LEASE) as stop:
        transitions.cancel([claim.run.id], reason="operator", now=NOW)
        assert stop.wait(10)


@pytest.mark.req("TSK-9")
@pytest.mark.parametrize(
    "error", [OperationalError("gone away"), InterfaceError("connection already closed")]
)
def test_a_database_that_is_away_for_a_moment_does_not_end_the_heartbeat(
    claim: Claim, error: Exception
) -> None:
    first = lease_of(claim)
    with heartbeat(claim, clock=ticking(error, error), lease=LEASE) as stop:
        eventually(lambda: lease_of(claim) != first)
        assert not stop.is_set()


def test_nothing_is_renewed_after_the_task_even_if_it_raised(claim: Claim) -> None:
    with pytest.raises(RuntimeError), heartbeat(claim, clock=ticking(), lease=LEASE):
        raise RuntimeError
    before = lease_of(claim)
    with heartbeat(claim, clock=ticking(), lease=timedelta(minutes=1)):
        watched = Event()
        with watcher.after(2 * LEASE.total_seconds(), watched.set):
            assert watched.wait(10)
    assert lease_of(claim) == before
