from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.db import InterfaceError, OperationalError, connection
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from punctual import Job as DeclaredJob
from punctual.beat import tick
from punctual.beat.celery_scheduler import OUTAGE_RETRY_SECONDS, Scheduler
from punctual.beat.tick import CONTENTION_DELAY
from punctual.execution.models import Process
from punctual.jobs.clock import database_now
from punctual.jobs.declaration.registry import Registry
from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor
from tests.execution.conftest import redis_down
from tests.harness import Harness
from tests.occurrences.factories import a_job, a_task, an_occurrence, saved

# django-celery-beat commits and closes connections, so a test cannot run inside a transaction.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def empty_registry_and_queue(declared: Registry, queue: Harness) -> None:
    """Every test here needs both."""


@pytest.fixture
def scheduler(transactional_db: None) -> Iterator[Scheduler]:
    scheduler = Scheduler(app=current_app)
    yield scheduler
    scheduler._finalize.cancel()


def second_beat() -> Any:
    """A second beat in this process; its name must differ, as that of a second process would."""
    beat = Scheduler(app=current_app)
    beat.name += "-second"
    beat._finalize.cancel()
    return beat


def refusing(error: Exception) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise error

    return refuse


@pytest.fixture
def ping(transactional_db: None) -> PeriodicTask:
    """Due again as soon as it has run."""
    always = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.MICROSECONDS)
    long_ago = database_now() - timedelta(days=1)
    return PeriodicTask.objects.create(
        name="ping", task="ping", args='["pong"]', interval=always, last_run_at=long_ago
    )


def noop(ctx: object) -> None: ...


def test_the_lazy_instance_for_the_banner_runs_no_query() -> None:
    with connection.execute_wrapper(refusing(AssertionError("a query"))):
        scheduler = Scheduler(app=current_app, lazy=True)
    assert scheduler.max_interval > 0
    scheduler._finalize.cancel()


def test_a_starting_beat_syncs_declared_jobs_and_signs_in(declared: Registry) -> None:
    DeclaredJob("job", "@hourly").task(noop)
    scheduler = Scheduler(app=current_app)
    scheduler._finalize.cancel()
    assert [job.name for job in Job.objects.all()] == ["job"]
    assert [beat.name for beat in Process.objects.beats()] == [scheduler.name]
    scheduler.close()
    assert not Process.objects.beats().exists()


@pytest.mark.parametrize("error", [OperationalError("no\nserver"), InterfaceError("connection closed")])
def test_a_beat_that_cannot_reach_its_database_exits_with_a_one_line_error(error: Exception) -> None:
    with connection.execute_wrapper(refusing(error)), pytest.raises(SystemExit) as caught:
        Scheduler(app=current_app)
    text = str(caught.value)
    assert text.startswith("error: beat cannot start on database ")
    assert text.endswith(" ".join(str(error).split()))
    assert "\n" not in text


def test_an_invalid_declaration_is_named_and_prevents_the_start(declared: Registry) -> None:
    DeclaredJob("empty", "@hourly")
    with pytest.raises(SystemExit, match=r"empty: .*a job needs at least one task"):
        Scheduler(app=current_app)
    assert not Job.objects.exists()


def test_no_result_clean_up_is_scheduled_when_the_backend_expires_keys(scheduler: Scheduler) -> None:
    assert not PeriodicTask.objects.exists()


def test_a_turn_fires_due_occurrences_and_returns_a_delay_of_at_most_a_second(
    scheduler: Scheduler, queue: Harness
) -> None:
    saved(a_task(saved(a_job("job", database_now() - timedelta(seconds=3), schedule="* * * * * *"))))
    assert 0 <= scheduler.turn() <= 1
    assert queue.lose_messages() == 1
    beat = Process.objects.beats().get()
    assert beat.seen_at > beat.started_at


@pytest.mark.req("TSK-9")
@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("connection already closed")])
def test_a_turn_without_the_database_returns_and_the_next_one_works(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = second_beat()
    with connection.execute_wrapper(refusing(error)):
        assert scheduler.turn() == OUTAGE_RETRY_SECONDS
        assert scheduler.turn() == OUTAGE_RETRY_SECONDS
    assert 0 <= scheduler.turn() <= 1
    troubled = [record for record in caplog.records if "beat.tick_failed" in record.getMessage()]
    assert len(troubled) == 4, "one line for each of the two schedules in each turn"
    assert not any(record.exc_info for record in caplog.records), "an outage logs no traceback"


@pytest.mark.req("OCC-7")
def test_a_turn_without_the_broker_returns_and_creates_occurrences(
    scheduler: Scheduler, queue: Harness
) -> None:
    config = {"mode": "parallel", "misfire_grace": "1h"}
    job = saved(a_job("job", database_now() - timedelta(minutes=2), schedule="* * * * *", config=config))
    for number in range(2):
        saved(a_task(job, f"step {number}", position=number))
    with redis_down():
        assert 0 <= scheduler.turn() <= 1
    job.refresh_from_db()
    assert job.occurrences.active().exists()


@pytest.mark.postgres
@pytest.mark.req("OCC-2")
@pytest.mark.parametrize("table", ["punctual_occurrence", "punctual_cursor"])
def test_rows_locked_by_another_beat_are_tried_again_after_a_pause_and_not_in_a_busy_loop(
    scheduler: Scheduler, queue: Harness, table: str
) -> None:
    job = saved(a_job("job", database_now() - timedelta(seconds=30), schedule="0 * * * *"))
    saved(a_task(job))
    scheduler.turn()
    saved(an_occurrence(job, database_now()))
    postgres: Any = connection
    with postgres.Database.connect(**postgres.get_connection_params()) as other:
        other.execute(f"SELECT 1 FROM {table} FOR UPDATE")  # noqa: S608 - one of two names
        assert scheduler.turn() == CONTENTION_DELAY.total_seconds()
    assert scheduler.turn() <= 1
    assert queue.lose_messages() == 1


def test_sweeps_are_seconds_apart_however_often_a_beat_ticks(scheduler: Scheduler) -> None:
    assert [scheduler._sweep_due() for _ in range(3)] == [True, False, False]


@pytest.mark.req("OCC-10")
def test_one_of_two_beats_sends_a_due_periodic_task(
    scheduler: Scheduler, ping: PeriodicTask, queue: Harness
) -> None:
    beats = [scheduler, second_beat()]
    beats[0]._initial_read = True  # the row was added after it started
    entries = [beat.schedule["ping"] for beat in beats]
    for number in range(1, 4):
        order = (0, 1) if number % 2 else (1, 0)
        assert all(entries[index].is_due().is_due for index in order)
        before = {index: entries[index] for index in order}
        for index in order:
            entries[index] = beats[index].reserve(before[index])
            beats[index].apply_entry(before[index], producer=beats[index].producer)
        assert queue.lose_messages() == 1
        ping.refresh_from_db()
        assert ping.total_run_count == number
        assert entries[0].last_run_at == entries[1].last_run_at == ping.last_run_at


@pytest.mark.req("OCC-10")
def test_a_turn_sends_a_due_periodic_task(ping: PeriodicTask, scheduler: Scheduler, queue: Harness) -> None:
    assert scheduler.turn() == 0, "no delay: more may be due"
    assert queue.lose_messages() == 1


@pytest.mark.req("OCC-10")
def test_the_first_periodic_task_ever_is_sent_in_the_next_turn(
    scheduler: Scheduler, queue: Harness, request: pytest.FixtureRequest
) -> None:
    scheduler.turn()
    request.getfixturevalue("ping")
    assert scheduler.turn() == 0
    assert queue.lose_messages() == 1


@pytest.mark.req("OCC-7")
@pytest.mark.req("OCC-10")
def test_a_periodic_task_waits_for_the_broker_and_blocks_no_occurrence(
    ping: PeriodicTask, scheduler: Scheduler, queue: Harness
) -> None:
    job = saved(a_job("job", database_now() - timedelta(seconds=3), schedule="* * * * * *"))
    saved(a_task(job))
    with redis_down():
        assert 0 <= scheduler.turn() <= 1
        assert job.occurrences.active().count() == 1
        ping.refresh_from_db()
        assert ping.total_run_count == 0, "it is not reserved while it cannot be sent"
    scheduler.__dict__.pop("connection")  # a connection to the address that does not answer
    assert scheduler.turn() == 0
    assert queue.take() == ("ping", "pong")


@pytest.mark.req("OCC-8")
def test_an_edit_of_a_periodic_task_is_never_overwritten(ping: PeriodicTask, scheduler: Scheduler) -> None:
    entry = scheduler.schedule["ping"]
    PeriodicTask.objects.update(args='["edited"]', enabled=False)
    scheduler.reserve(entry)
    scheduler.sync()
    ping.refresh_from_db()
    assert (ping.args, ping.enabled, ping.total_run_count) == ('["edited"]', False, 0)


@pytest.mark.req("EXE-9")
def test_a_beat_with_more_to_do_renews_its_heartbeat_and_takes_the_next_turn_at_once(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = database_now()
    job = saved(a_job("job", now - timedelta(hours=2), schedule="* * * * * *"))
    saved(a_task(job))
    just_now = now - timedelta(seconds=3)
    Cursor.objects.update(planned_until=just_now, plan_at=now, settled_until=just_now)
    Process.objects.beats().update(seen_at=now - timedelta(hours=1))
    monkeypatch.setattr(tick, "MAX_ROUNDS", 1)
    assert scheduler.turn() == 0.0, "it planned occurrences that are due"
    assert Process.objects.beats().get().seen_at >= now
    assert scheduler.turn() > 0.0
