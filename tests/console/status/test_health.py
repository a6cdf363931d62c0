"""Each check answers in time, in one line without addresses."""

import json
from datetime import datetime, timedelta
from threading import Event

import pytest
from celery import current_app
from django.db import DatabaseError
from django.test import Client

from punctual.console.status.health import (
    MAX_WAIT,
    Check,
    consumption,
    judge_consumption,
    judge_tick,
    run_checks,
    tick,
)
from punctual.execution.models import Process
from punctual.execution.supervision.presence import sign_in, sign_out
from punctual.jobs.clock import database_now
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.recovery.pruning import prune_step
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task

pytestmark = pytest.mark.req("OPS-4")

BOUND = timedelta(seconds=10)
SECRET = "hunter2"  # noqa: S105 - made up


@pytest.fixture
def beat() -> Process:
    now = database_now()
    return Process.objects.create(
        kind="beat", name="host:1", started_at=now, seen_at=now, tick_duration=timedelta()
    )


def test_healthz_answers_without_a_database(client: Client) -> None:
    response = client.get("/healthz")
    assert (response.status_code, response.content) == (200, b"ok\n")


@pytest.mark.django_db(transaction=True)
def test_readyz_is_ready_when_everything_answers(client: Client, beat: Process) -> None:
    response = client.get("/readyz")
    assert response.status_code == 200, response.json()
    assert response.json()["ready"] is True
    assert response.json()["degraded"] is False
    assert set(response.json()["checks"]) == {"database", "broker", "tick", "consumption", "queues"}


@pytest.mark.django_db(transaction=True)
def test_readyz_is_degraded_while_runs_wait_in_a_queue_without_a_worker(
    client: Client, beat: Process
) -> None:
    now = database_now()
    job = make_job("etl", now)
    waiting = make_occurrence(job, now - timedelta(minutes=2), OccurrenceState.DISPATCHED)
    make_run(waiting, make_task(job), RunState.SCHEDULED, policy={"queue": "slow"})
    make_occurrence(job, now, OccurrenceState.RUNNING)  # workers of other queues are busy
    response = client.get("/readyz")
    assert response.status_code == 200, response.json()
    assert (response.json()["ready"], response.json()["degraded"]) == (True, True)
    check = response.json()["checks"]["queues"]
    assert check["ok"] is False
    assert "slow" in check["detail"]


@pytest.mark.django_db(transaction=True)
def test_readyz_that_is_not_ready_is_not_called_degraded(client: Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 503
    assert (response.json()["ready"], response.json()["degraded"]) == (False, False)


@pytest.mark.django_db(transaction=True)
def test_readyz_refuses_while_no_beat_ticks(client: Client, beat: Process) -> None:
    Process.objects.beats().update(seen_at=database_now() - timedelta(minutes=5))
    response = client.get("/readyz")
    checks = response.json()["checks"]
    assert response.status_code == 503
    assert {name: check["ok"] for name, check in checks.items()}["tick"] is False
    assert checks["database"]["ok"] is True


@pytest.mark.django_db(transaction=True)
def test_readyz_without_a_broker_names_it_and_hides_its_address(client: Client, beat: Process) -> None:
    before = current_app.conf.broker_url
    current_app.conf.update(broker_url=f"redis://user:{SECRET}@127.0.0.1:1/0")
    try:
        response = client.get("/readyz")
    finally:
        current_app.conf.update(broker_url=before)
    assert response.status_code == 503
    assert response.json()["checks"]["broker"]["ok"] is False
    text = json.dumps(response.json())
    assert SECRET not in text
    assert "127.0.0.1" not in text


def test_the_age_of_a_tick_is_judged_at_the_bound(now: datetime) -> None:
    assert judge_tick(now - BOUND, now, BOUND).ok
    assert not judge_tick(now - BOUND - timedelta(milliseconds=1), now, BOUND).ok


@pytest.mark.django_db
def test_without_any_beat_the_check_fails() -> None:
    assert tick(None) == Check(ok=False, detail="no beat has ever ticked")


@pytest.mark.django_db
def test_a_beat_that_was_stopped_is_not_one_that_never_was(now: datetime) -> None:
    sign_in("beat", Process.Kind.BEAT, now=database_now())
    prune_step(now)  # a part of its first sweep
    assert tick(None).ok
    sign_out("beat")
    assert tick(None) == Check(ok=False, detail="no beat runs, all were stopped")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("lag", "silent", "ok"), [(0, 1.5, True), (0, 2.5, False), (2, 5, True), (2, 7, False)]
)
def test_a_frozen_beat_is_detected_within_two_intervals(lag: float, silent: float, *, ok: bool) -> None:
    """An interval is the longest sleep plus the duration of a tick."""
    now = database_now()
    ticked = now - timedelta(seconds=silent)
    Process.objects.create(
        kind="beat", name="frozen", started_at=ticked, seen_at=ticked, tick_duration=timedelta(seconds=lag)
    )
    assert tick(None).ok is ok


@pytest.mark.django_db
def test_workers_that_claim_nothing_are_detected_even_if_they_answer_pings() -> None:
    now = database_now()
    job = make_job("etl", now)
    task = make_task(job)
    assert consumption() == Check(ok=True, detail="no message waits")
    stuck = make_occurrence(job, now - timedelta(minutes=2), OccurrenceState.DISPATCHED)
    make_run(stuck, task, RunState.SCHEDULED, dispatched_at=now - timedelta(minutes=2))
    assert consumption().ok is False
    assert "no worker has taken any since" in consumption().detail
    other = make_occurrence(job, now - timedelta(minutes=1), OccurrenceState.COMPLETED)
    assert consumption().ok is True, "another was started since: they are busy, not dead"
    other.delete()
    held = make_occurrence(job, now - timedelta(hours=3), OccurrenceState.RUNNING)
    run = make_run(held, task, RunState.RUNNING, lease_until=now + timedelta(minutes=1))
    assert consumption().ok is True, "a worker holds a run and is alive"
    TaskRun.objects.filter(pk=run.pk).update(lease_until=now - timedelta(minutes=1))
    assert consumption().ok is False


def test_a_message_may_wait_a_little() -> None:
    assert judge_consumption(MAX_WAIT, taken=False).ok
    assert not judge_consumption(MAX_WAIT + timedelta(seconds=1), taken=False).ok


def test_a_check_that_hangs_is_reported_in_time_beside_one_that_answers() -> None:
    release = Event()

    def hang() -> Check:
        release.wait(30)
        return Check(ok=True, detail="too late")

    checks = run_checks({"slow": hang, "quick": lambda: Check(ok=True, detail="answers")}, timeout=0.2)
    release.set()
    assert checks["slow"] == Check(ok=False, detail="no answer within 0.2 s")
    assert checks["quick"].ok


def test_a_failure_is_named_by_its_reason_only() -> None:
    def refuse() -> Check:
        raise DatabaseError(f"postgres://user:{SECRET}@db/app: no route")

    check = run_checks({"database": refuse}, timeout=5)["database"]
    assert check == Check(ok=False, detail="does not answer at its address")
