"""A beat or worker has a row while it is alive, renews it, and deletes it when it stops."""

from datetime import datetime, timedelta

import pytest

from punctual.execution.models import Process
from punctual.execution.supervision.presence import (
    FORGOTTEN_AFTER,
    RENEWAL_INTERVAL,
    WorkerPresence,
    renew,
    sign_in,
    sign_out,
)
from tests.execution.conftest import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

BEAT, WORKER = Process.Kind.BEAT, Process.Kind.WORKER
LATER = NOW + timedelta(seconds=7)


def rows() -> dict[str, tuple[datetime, datetime]]:
    return {row.name: (row.started_at, row.seen_at) for row in Process.objects.all()}


def test_a_worker_signs_in_at_its_first_pass_and_renews_every_few_seconds() -> None:
    presence = WorkerPresence("celery@a")
    assert presence.run_once(at=100.0, clock=lambda: NOW)
    assert not presence.run_once(at=100.0 + RENEWAL_INTERVAL - 0.1, clock=lambda: LATER)
    assert rows() == {"celery@a": (NOW, NOW)}
    assert presence.run_once(at=100.0 + RENEWAL_INTERVAL, clock=lambda: LATER)
    assert rows() == {"celery@a": (NOW, LATER)}
    assert [row.name for row in Process.objects.workers()] == ["celery@a"]


@pytest.mark.req("OPS-4")
def test_a_worker_publishes_the_queues_it_consumes_and_what_changes_of_them() -> None:
    queues = ["default"]
    presence = WorkerPresence("celery@a", lambda: queues)
    presence.run_once(at=100.0, clock=lambda: NOW)
    assert Process.objects.get().queues == ["default"]
    queues = ["default", "slow"]  # as remote control adds one
    presence.run_once(at=100.0 + RENEWAL_INTERVAL, clock=lambda: LATER)
    assert Process.objects.get().queues == ["default", "slow"]
    Process.objects.all().delete()
    presence.run_once(at=100.0 + 2 * RENEWAL_INTERVAL, clock=lambda: LATER)
    assert Process.objects.get().queues == ["default", "slow"]


@pytest.mark.parametrize("kind", [BEAT, WORKER])
def test_a_process_that_starts_again_under_the_same_name_has_one_row(kind: Process.Kind) -> None:
    sign_in("host:1", kind, now=NOW)
    renew("host:1", kind, now=NOW, tick_duration=timedelta(seconds=3))
    sign_in("host:1", kind, now=LATER)
    (row,) = Process.objects.all()
    facts = (row.kind, row.started_at, row.seen_at, row.tick_duration)
    assert facts == (kind, LATER, LATER, timedelta())


def test_a_failed_write_is_repeated_at_the_next_pass() -> None:
    presence = WorkerPresence("celery@a")

    def away() -> datetime:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        presence.run_once(at=100.0, clock=away)
    assert presence.run_once(at=100.1, clock=lambda: NOW)
    assert rows() == {"celery@a": (NOW, NOW)}


def test_a_tick_is_noted_in_the_row_of_its_own_beat() -> None:
    sign_in("host:1", BEAT, now=NOW)
    sign_in("host:2", BEAT, now=NOW)
    renew("host:1", BEAT, now=LATER, tick_duration=timedelta(seconds=3))
    row = Process.objects.beats().get(name="host:1")
    assert (row.started_at, row.seen_at, row.tick_duration) == (NOW, LATER, timedelta(seconds=3))
    assert Process.objects.beats().get(name="host:2").seen_at == NOW


@pytest.mark.parametrize("kind", [BEAT, WORKER])
def test_a_process_whose_row_was_deleted_while_it_was_frozen_signs_in_again(kind: Process.Kind) -> None:
    renew("host:1", kind, now=LATER, tick_duration=timedelta(seconds=3))
    assert rows() == {"host:1": (LATER, LATER)}
    assert Process.objects.get().kind == kind


def test_a_process_that_stops_deletes_only_its_own_row() -> None:
    sign_in("celery@a", WORKER, now=NOW)
    sign_in("celery@b", WORKER, now=NOW)
    sign_in("host:1", BEAT, now=NOW)
    sign_out("celery@a")
    sign_out("celery@a")
    assert set(rows()) == {"celery@b", "host:1"}


def test_rows_of_processes_long_silent_are_deleted_when_the_next_one_signs_in() -> None:
    sign_in("dead", WORKER, now=NOW)
    sign_in("host:1", BEAT, now=NOW)
    sign_in("quiet", WORKER, now=NOW + timedelta(microseconds=1))
    sign_in("next", WORKER, now=NOW + FORGOTTEN_AFTER + timedelta(microseconds=1))
    assert set(rows()) == {"quiet", "next"}


def test_beats_and_workers_are_told_apart() -> None:
    sign_in("host:1", BEAT, now=NOW)
    sign_in("celery@a", WORKER, now=NOW)
    assert [row.name for row in Process.objects.beats()] == ["host:1"]
    assert [row.name for row in Process.objects.workers()] == ["celery@a"]
