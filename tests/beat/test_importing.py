import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import current_app
from django.core.management import call_command
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    PeriodicTasks,
    SolarSchedule,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import schedules
from beat.importing import FUNCTION, SEND, import_beat, send
from beat.translating import schedule_of
from jobs.clock import database_now
from jobs.context import Context
from jobs.errors import DefinitionError, NonRetryable
from jobs.models import Job, JobVersion, Origin, Task
from jobs.registry import registry
from tests.harness import Harness
from tests.occurrences.ledger import a_job, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-10")]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SOON = NOW + timedelta(days=1)


@pytest.fixture
def harness() -> Iterator[Harness]:
    with registry.isolated():
        registry.add_function(SEND)
        harness = Harness()
        harness.lose_messages()
        yield harness


def a_row(name: str = "report", **columns: Any) -> Any:
    """A PeriodicTask, not saved: every hour unless the columns say otherwise."""
    if not {"crontab", "interval", "clocked", "solar"} & set(columns):
        columns["crontab"] = CrontabSchedule(minute="0", timezone=ZoneInfo("UTC"))
    return PeriodicTask(name=name, **{"task": "shop.report", "one_off": "clocked" in columns} | columns)


def saved_row(name: str = "report", **columns: Any) -> Any:
    row = a_row(name, **columns)
    for kind in ("crontab", "interval", "clocked", "solar"):
        if schedule := getattr(row, kind):
            schedule.save()
            setattr(row, kind, schedule)
    row.save()
    return row


def cron(**fields: Any) -> Any:
    zone = ZoneInfo(fields.pop("timezone", "UTC"))
    return CrontabSchedule(**fields, timezone=zone)


def every(count: int, period: str) -> Any:
    return IntervalSchedule(every=count, period=period)


def said(*words: str) -> str:
    out = io.StringIO()
    call_command("jobs", "import_beat", *words, stdout=out)
    return out.getvalue()


# -- schedules -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"crontab": cron(minute="*/5")}, "TZ=UTC */5 * * * *"),
        (
            {"crontab": cron(minute="0", hour="8-18/2", timezone="Europe/Berlin")},
            "TZ=Europe/Berlin 0 8-18/2 * * *",
        ),
        ({"crontab": cron(minute="0, 30", hour="*/1")}, "TZ=UTC 0,30 * * * *"),
        ({"crontab": cron(minute="0", hour="3", day_of_week="mon-fri")}, "TZ=UTC 0 3 * * mon-fri"),
        ({"crontab": cron(minute="0", hour="3", day_of_week="sunday")}, "TZ=UTC 0 3 * * 0"),
        ({"crontab": cron(minute="0", hour="3", day_of_week="sat-mon")}, "TZ=UTC 0 3 * * sat-mon"),
        ({"crontab": cron(minute="0", hour="3", day_of_week="0,6")}, "TZ=UTC 0 3 * * 0,6"),
        ({"crontab": cron(minute="0", hour="3", day_of_week="0-6", day_of_month="1")}, "TZ=UTC 0 3 1 * *"),
        (
            {"crontab": cron(minute="0", day_of_month="*/2", month_of_year="jan,jul")},
            "TZ=UTC 0 * */2 jan,jul *",
        ),
        ({"crontab": cron(minute="0", month_of_year="january")}, "TZ=UTC 0 * * 1 *"),
        ({"interval": every(30, "seconds")}, "@every 30s"),
        ({"interval": every(2, "days")}, "@every 2d"),
        ({"interval": every(5000, "microseconds")}, "@every 5ms"),
        ({"interval": every(1, "hours"), "start_time": NOW}, "@every 1h"),
        ({"interval": every(1, "hours"), "start_time": SOON}, "iso8601:R/2026-01-06T12:00:00Z/PT3600.000S"),
        (
            {"interval": every(1, "hours"), "start_time": SOON, "expires": SOON + timedelta(hours=3)},
            "iso8601:R3/2026-01-06T12:00:00Z/PT3600.000S",
        ),
        (
            {"interval": every(1, "hours"), "start_time": SOON, "one_off": True},
            "iso8601:R1/2026-01-06T12:00:00Z/PT3600.000S",
        ),
        ({"interval": every(1, "hours"), "one_off": True}, "@every 1h {max:1}"),
        ({"clocked": ClockedSchedule(clocked_time=SOON)}, "@once 2026-01-06T12:00:00Z"),
        (
            {"start_time": NOW, "expires": SOON, "one_off": True},
            "TZ=UTC 0 * * * * {from:2026-01-05T12:00:00Z, max:1, until:2026-01-06T11:59:59.999999Z}",
        ),
    ],
)
def test_a_schedule_is_said_in_our_words(columns: dict[str, Any], text: str) -> None:
    assert schedule_of(a_row(**columns), NOW) == text
    schedules.parse(text, reference=NOW)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (
            {"crontab": cron(minute="0", day_of_month="1", day_of_week="1")},
            "crontab='0 \\* 1 \\* 1': Celery fires when day of month AND day of week match",
        ),
        ({"crontab": cron(minute="61")}, "crontab='61 .*': Celery cannot read it"),
        ({"crontab": cron(minute="1,,2")}, "crontab='1,,2 .*': Celery cannot read it"),
        ({"crontab": cron(minute="0", day_of_month="31", month_of_year="2")}, "Celery cannot read it"),
        (
            {"interval": every(999, "microseconds")},
            "interval='999 microseconds': expected whole milliseconds",
        ),
        ({"interval": every(0, "seconds")}, "interval='0 seconds': expected whole milliseconds, at least 1"),
        (
            {"clocked": ClockedSchedule(clocked_time=NOW)},
            "clocked='2026-01-05T12:00:00Z': its time has passed",
        ),
        (
            {"solar": SolarSchedule(event="sunset", latitude=1, longitude=2)},
            "solar='Sunset .*follows the sun",
        ),
        ({"interval": every(1, "days"), "crontab": cron(minute="0")}, "expected exactly one of crontab"),
        ({"crontab": None}, "schedule=\\[\\]: expected exactly one of"),
        ({"expires": NOW}, "expires='2026-01-05T12:00:00Z': it has expired"),
        ({"one_off": True, "total_run_count": 1}, "one_off=True: it has run; nothing is left to do"),
        (
            {"interval": every(1, "days"), "start_time": SOON, "expires": SOON},
            "expires='2026-01-06T12:00:00Z': it expires before it starts",
        ),
    ],
)
def test_what_cannot_be_said_exactly_is_refused_with_the_reason(columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason):
        schedule_of(a_row(**columns), NOW)


def test_without_zones_in_celery_a_crontab_means_the_app_s_zone(settings: Any) -> None:
    settings.DJANGO_CELERY_BEAT_TZ_AWARE = False
    row = a_row(crontab=cron(minute="0", timezone="Asia/Tokyo"))
    assert schedule_of(row, NOW) == f"TZ={current_app.timezone} 0 * * * *"


def numbers(low: int, high: int, *names: str) -> st.SearchStrategy[str]:
    number = st.integers(low, high).map(str) | (st.sampled_from(names) if names else st.nothing())
    pair = st.tuples(number, number).map("-".join)
    part = st.one_of(number, pair, st.tuples(pair | st.just("*"), st.integers(1, 9).map(str)).map("/".join))
    return st.just("*") | st.lists(part, min_size=1, max_size=3).map(",".join)


@given(
    minute=numbers(0, 59),
    hour=numbers(0, 23),
    month=numbers(1, 12, "feb", "November"),
    day=st.tuples(numbers(1, 31), st.just("*")) | st.tuples(st.just("*"), numbers(0, 6, "mon", "Saturday")),
)
@settings(max_examples=300, deadline=None)
def test_a_crontab_fires_where_celery_says(minute: str, hour: str, month: str, day: tuple[str, str]) -> None:
    row = cron(minute=minute, hour=hour, month_of_year=month, day_of_month=day[0], day_of_week=day[1])
    try:
        text = schedule_of(a_row(crontab=row), NOW)
    except DefinitionError as error:
        assert "Celery cannot read it" in str(error)  # noqa: PT017 - 30 February and the like
        return
    celery = row.schedule
    fires = list(islice(schedules.parse(text).between(NOW, NOW + timedelta(days=4000)), 50))
    for at in fires:
        assert {at.minute} <= celery.minute
        assert {at.hour} <= celery.hour
        assert {at.day} <= celery.day_of_month
        assert {at.month} <= celery.month_of_year
        assert {at.isoweekday() % 7} <= celery.day_of_week
    first = fires[0]
    assert first == NOW + next_by_celery(celery)


def next_by_celery(celery: Any) -> timedelta:
    """Celery's own search, started from NOW."""
    celery.nowfun = lambda: NOW
    found: timedelta = celery.remaining_estimate(NOW)
    return found


# -- importing -----------------------------------------------------------------------------------------


def test_a_row_becomes_a_job_that_sends_the_same_message(harness: Harness) -> None:
    saved_row("daily", crontab=cron(minute="1", hour="12"), args='["eu", 7]', queue="reports")
    (report,) = import_beat(author="ann", now=harness.now)
    assert (report.name, report.fate, report.off) == ("daily", "imported", True)
    job = Job.objects.get()
    assert (job.schedule, job.origin, job.enabled) == ("TZ=UTC 1 12 * * *", Origin.ADMIN, True)
    assert list(Task.objects.values_list("name", "function")) == [("send", FUNCTION)]
    assert JobVersion.objects.get().reason == "imported from django-celery-beat"

    harness.tick()
    harness.pass_time(minutes=1)
    harness.tick()
    assert harness.work() == 1
    assert harness.finished("daily") == ["completed"]
    assert harness.take("reports") == ("shop.report", "eu")
    assert harness.received[-1][1] == ["eu", 7]
    assert harness.take("reports") is None


def test_what_send_sends(harness: Harness) -> None:
    saved_row(args='["eu", 7]', kwargs='{"a": [1]}', headers='{"tenant": "x"}', queue="reports", priority=3)
    import_beat(author="ann", now=NOW)
    send(context(Job.objects.get().metadata))
    message = taken("reports")
    assert message.headers["task"] == "shop.report"
    assert message.headers["id"] == "00000000-0000-5000-8000-000000000001"
    assert (message.headers["tenant"], message.headers["periodic_task_name"]) == ("x", "report")
    assert message.payload[:2] == [["eu", 7], {"a": [1]}]
    assert message.properties["priority"] == 3


def taken(queue: str) -> Any:
    """The next message as the broker holds it, headers and all."""
    declared: Any = current_app.amqp.queues[queue]
    with current_app.connection_for_read() as connection:
        message = connection.SimpleQueue(declared).get_nowait()
        message.ack()
    return message


@pytest.mark.parametrize("metadata", [{}, {"celery_task": "a", "celery_args": "["}])
def test_a_job_whose_metadata_names_no_message_fails_for_good(metadata: dict[str, str]) -> None:
    with pytest.raises(NonRetryable, match="names no message to send"):
        send(context(metadata))


def context(metadata: dict[str, str]) -> Context:
    return Context(
        job="report",
        task="send",
        occurrence_id="occ_1",
        run_id="run_00000000-0000-5000-8000-000000000001",
        attempt_id="attempt_1",
        attempt=0,
        scheduled_for=NOW,
        run_at=NOW,
        started_at=NOW,
        deadline=None,
        metadata=metadata,
        args={},
        logger=logging.getLogger("test"),
    )


@pytest.mark.req("JOB-4")
def test_what_imported_jobs_run_is_registered_by_code() -> None:
    found = registry.function(FUNCTION)
    assert found is not None
    assert found.call is send


def test_an_imported_row_is_switched_off_and_beats_are_told() -> None:
    saved_row()
    PeriodicTasks.objects.all().delete()
    import_beat(author="ann", now=NOW)
    assert not PeriodicTask.objects.get().enabled
    assert PeriodicTasks.last_change() is not None


def test_a_row_that_is_to_stay_on_stays_on_and_can_be_switched_off_later() -> None:
    saved_row()
    assert not import_beat(author="ann", now=NOW, switch_off=False)[0].off
    assert PeriodicTask.objects.get().enabled
    (again,) = import_beat(author="ann", now=NOW)
    assert (again.fate, again.off) == ("already imported", True)
    assert not PeriodicTask.objects.get().enabled
    assert JobVersion.objects.count() == 1


@pytest.mark.parametrize("undone", [{"enabled": False}, {"removed_at": NOW}])
def test_a_row_whose_job_was_stopped_since_is_left_on(undone: dict[str, Any]) -> None:
    saved_row()
    import_beat(author="ann", now=NOW)
    Job.objects.update(**undone)
    PeriodicTask.objects.update(enabled=True)
    (report,) = import_beat(author="ann", now=NOW)
    assert (report.fate, report.off) == ("already imported", False)
    assert PeriodicTask.objects.get().enabled


def test_a_disabled_row_becomes_a_stopped_job() -> None:
    saved_row(enabled=False)
    (report,) = import_beat(author="ann", now=NOW)
    assert (report.fate, report.off) == ("imported", False)
    assert not Job.objects.get().enabled


def test_a_job_edited_after_its_import_stays_as_it_is() -> None:
    saved_row()
    import_beat(author="ann", now=NOW)
    Job.objects.update(schedule="@daily")
    assert import_beat(author="ann", now=NOW)[0].schedule == "@daily"
    assert Job.objects.get().schedule == "@daily"


def test_a_name_another_job_has_is_refused_and_the_row_goes_on() -> None:
    saved(a_job("report", NOW))
    saved_row()
    (report,) = import_beat(author="ann", now=NOW)
    assert (report.fate, report.reason) == ("refused", "name='report': another job has this name")
    assert PeriodicTask.objects.get().enabled


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"args": "{}"}, "args='{}': expected a JSON list"),
        ({"kwargs": "oops"}, "kwargs='oops': expected a JSON object"),
        ({"headers": "[1]"}, "headers='[1]': expected a JSON object"),
    ],
)
def test_arguments_that_are_no_json_are_refused(columns: dict[str, Any], reason: str) -> None:
    saved_row("good")
    saved_row("bad", **columns)
    reports = {report.name: report for report in import_beat(author="ann", now=NOW)}
    assert (reports["good"].fate, reports["bad"].fate) == ("imported", "refused")
    assert reports["bad"].reason == reason


# -- the command ---------------------------------------------------------------------------------------


@pytest.mark.req("OPS-3")
def test_a_dry_run_reports_and_writes_nothing() -> None:
    saved_row("a")
    saved_row("b", solar=SolarSchedule(event="sunset", latitude=1, longitude=2))
    lines = said("--dry-run").splitlines()
    assert lines[0] == "imported  a  TZ=UTC 0 * * * *  switched off in django-celery-beat"
    assert lines[1].startswith("refused  b  solar='Sunset (1")
    assert lines[2] == "1 imported, 1 refused, 0 already imported (dry run: nothing was written)"
    assert not Job.objects.exists()
    assert PeriodicTask.objects.filter(enabled=True).count() == 2


@pytest.mark.req("OPS-3")
def test_the_command_imports_and_says_so_to_programs_too() -> None:
    saved_row("a")
    (row,) = json.loads(said("--json", "--author", "ann", "--keep-enabled"))
    assert row == {
        "name": "a",
        "fate": "imported",
        "reason": "",
        "schedule": "TZ=UTC 0 * * * *",
        "off": False,
    }
    assert JobVersion.objects.get().author == "ann"
    assert said() == (
        "already imported  a  TZ=UTC 0 * * * *  switched off in django-celery-beat\n"
        "0 imported, 0 refused, 1 already imported\n"
    )
    assert Job.objects.get().created_at <= database_now()
