from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.db import InterfaceError, OperationalError, connection
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from beat import tick
from beat.models import Beat
from beat.scheduler import AFTER_TROUBLE, Scheduler
from beat.tick import AFTER_CONTENTION
from jobs import Job as DeclaredJob
from jobs.clock import database_now
from jobs.models import Job
from jobs.registry import Registry
from occurrences.models import Cursor
from tests.execution.conftest import redis_down
from tests.harness import Harness
from tests.occurrences.ledger import a_job, a_task, an_occurrence, saved

# Upstream commits and closes connections as it likes, which a test's own transaction does not survive.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def everything(declared: Registry, queue: Harness) -> None:
    """Each of these needs both."""


@pytest.fixture
def scheduler(transactional_db: None) -> Iterator[Scheduler]:
    scheduler = Scheduler(app=current_app)
    yield scheduler
    scheduler._finalize.cancel()


def another() -> Any:
    """A second beat in this process; its name must differ, as a second process's does."""
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


def test_the_lazy_instance_of_the_banner_touches_no_database() -> None:
    with connection.execute_wrapper(refusing(AssertionError("a query"))):
        scheduler = Scheduler(app=current_app, lazy=True)
    assert scheduler.max_interval > 0
    scheduler._finalize.cancel()


def test_a_beat_that_starts_syncs_the_code_and_signs_in(declared: Registry) -> None:
    DeclaredJob("job", "@hourly").task(noop)
    scheduler = Scheduler(app=current_app)
    scheduler._finalize.cancel()
    assert [job.name for job in Job.objects.all()] == ["job"]
    assert [beat.name for beat in Beat.objects.all()] == [scheduler.name]
    scheduler.close()
    assert not Beat.objects.exists()


@pytest.mark.parametrize("error", [OperationalError("no\nserver"), InterfaceError("connection closed")])
def test_without_its_database_a_beat_says_so_in_one_line_and_stops(error: Exception) -> None:
    with connection.execute_wrapper(refusing(error)), pytest.raises(SystemExit) as caught:
        Scheduler(app=current_app)
    text = str(caught.value)
    assert text.startswith("error: beat cannot start on database ")
    assert text.endswith(" ".join(str(error).split()))
    assert "\n" not in text


def test_a_wrong_declaration_keeps_a_beat_from_starting_and_is_named(declared: Registry) -> None:
    DeclaredJob("empty", "@hourly")
    with pytest.raises(SystemExit, match=r"empty: .*a job needs at least one task"):
        Scheduler(app=current_app)
    assert not Job.objects.exists()


def test_no_clean_up_of_results_is_scheduled_where_keys_expire_by_themselves(scheduler: Scheduler) -> None:
    assert not PeriodicTask.objects.exists()


def test_a_tick_fires_what_is_due_and_returns_a_wait_of_a_second_at_most(
    scheduler: Scheduler, queue: Harness
) -> None:
    saved(a_task(saved(a_job("job", database_now() - timedelta(seconds=3), schedule="* * * * * *"))))
    assert 0 <= scheduler.turn() <= 1
    assert queue.lose_messages() == 1
    beat = Beat.objects.get()
    assert beat.ticked_at > beat.started_at


@pytest.mark.req("TSK-9")
@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("connection already closed")])
def test_a_tick_without_its_database_returns_and_the_next_one_works(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = another()
    with connection.execute_wrapper(refusing(error)):
        assert scheduler.turn() == AFTER_TROUBLE
        assert scheduler.turn() == AFTER_TROUBLE
    assert 0 <= scheduler.turn() <= 1
    troubled = [record for record in caplog.records if "beat.troubled" in record.getMessage()]
    assert len(troubled) == 4, "a line for each of the two schedules, each time"
    assert not any(record.exc_info for record in caplog.records), "an outage is no traceback"


@pytest.mark.req("OCC-7")
def test_a_tick_without_its_broker_returns_and_the_next_one_sends(
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
@pytest.mark.parametrize("table", ["occurrences_occurrence", "occurrences_cursor"])
def test_what_another_beat_holds_is_asked_for_again_after_a_moment_and_not_in_a_busy_loop(
    scheduler: Scheduler, queue: Harness, table: str
) -> None:
    job = saved(a_job("job", database_now() - timedelta(seconds=30), schedule="0 * * * *"))
    saved(a_task(job))
    scheduler.turn()
    saved(an_occurrence(job, database_now()))
    postgres: Any = connection
    with postgres.Database.connect(**postgres.get_connection_params()) as other:
        other.execute(f"SELECT 1 FROM {table} FOR UPDATE")  # noqa: S608 - one of two names
        assert scheduler.turn() == AFTER_CONTENTION.total_seconds()
    assert scheduler.turn() <= 1
    assert queue.lose_messages() == 1


def test_sweeps_are_some_seconds_apart_whatever_the_ticks_do(scheduler: Scheduler) -> None:
    assert [scheduler._sweep_due() for _ in range(3)] == [True, False, False]


@pytest.mark.req("OCC-10")
def test_of_two_beats_one_sends_a_due_periodic_task(
    scheduler: Scheduler, ping: PeriodicTask, queue: Harness
) -> None:
    beats = [scheduler, another()]
    beats[0]._initial_read = True  # the row was added after it started
    entries = [beat.schedule["ping"] for beat in beats]
    for number in range(1, 4):
        order = (0, 1) if number % 2 else (1, 0)
        assert all(entries[index].is_due().is_due for index in order)
        believed = {index: entries[index] for index in order}
        for index in order:
            entries[index] = beats[index].reserve(believed[index])
            beats[index].apply_entry(believed[index], producer=beats[index].producer)
        assert queue.lose_messages() == 1
        ping.refresh_from_db()
        assert ping.total_run_count == number
        assert entries[0].last_run_at == entries[1].last_run_at == ping.last_run_at


@pytest.mark.req("OCC-10")
def test_a_beat_sends_a_due_periodic_task_in_its_own_tick(
    ping: PeriodicTask, scheduler: Scheduler, queue: Harness
) -> None:
    assert scheduler.turn() == 0, "come back at once, more may be due"
    assert queue.lose_messages() == 1


@pytest.mark.req("OCC-10")
def test_the_first_periodic_task_ever_is_heard_of_at_the_next_turn(
    scheduler: Scheduler, queue: Harness, request: pytest.FixtureRequest
) -> None:
    scheduler.turn()
    request.getfixturevalue("ping")
    assert scheduler.turn() == 0
    assert queue.lose_messages() == 1


@pytest.mark.req("OCC-7")
@pytest.mark.req("OCC-10")
def test_a_periodic_task_waits_for_the_broker_and_holds_up_no_occurrence(
    ping: PeriodicTask, scheduler: Scheduler, queue: Harness
) -> None:
    job = saved(a_job("job", database_now() - timedelta(seconds=3), schedule="* * * * * *"))
    saved(a_task(job))
    with redis_down():
        assert 0 <= scheduler.turn() <= 1
        assert job.occurrences.active().count() == 1
        ping.refresh_from_db()
        assert ping.total_run_count == 0, "it is not reserved as long as it cannot be sent"
    scheduler.__dict__.pop("connection")  # made for the address that does not answer
    assert scheduler.turn() == 0
    assert queue.take() == ("ping", "pong")


@pytest.mark.req("OCC-8")
def test_a_user_s_edit_of_a_periodic_task_is_never_overwritten(
    ping: PeriodicTask, scheduler: Scheduler
) -> None:
    entry = scheduler.schedule["ping"]
    PeriodicTask.objects.update(args='["edited"]', enabled=False)
    scheduler.reserve(entry)
    scheduler.sync()
    ping.refresh_from_db()
    assert (ping.args, ping.enabled, ping.total_run_count) == ('["edited"]', False, 0)


@pytest.mark.req("EXE-9")
def test_a_beat_with_more_to_do_shows_life_and_comes_straight_back(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = database_now()
    job = saved(a_job("job", now - timedelta(hours=2)))
    saved(a_task(job))
    saved(an_occurrence(job, now))
    Cursor.objects.update(planned_until=now, plan_at=now, settled_until=now)
    Beat.objects.update(ticked_at=now - timedelta(hours=1))
    monkeypatch.setattr(tick, "ROUNDS", 1)
    assert scheduler.turn() == 0.0, "it fired one and planned the next: there may be more"
    assert Beat.objects.get().ticked_at >= now
    assert scheduler.turn() > 0.0
