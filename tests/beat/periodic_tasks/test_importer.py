import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from celery import current_app
from django_celery_beat.models import PeriodicTask, PeriodicTasks

from punctual.beat.periodic_tasks.importer import FUNCTION, SEND, import_beat, send
from punctual.jobs.context import Context
from punctual.jobs.declaration.registry import registry
from punctual.jobs.errors import NonRetryable
from punctual.jobs.models import Job, JobVersion, Origin, Task
from tests.beat.periodic_tasks.factories import cron, saved_periodic_task
from tests.harness import Harness
from tests.occurrences.factories import a_job, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-10")]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def harness() -> Iterator[Harness]:
    with registry.isolated():
        registry.add_function(SEND)
        harness = Harness()
        harness.lose_messages()
        yield harness


def test_a_row_becomes_a_job_that_sends_the_same_message(harness: Harness) -> None:
    saved_periodic_task("daily", crontab=cron(minute="1", hour="12"), args='["eu", 7]', queue="reports")
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


def test_send_sends_the_arguments_headers_and_options_of_the_row(harness: Harness) -> None:
    saved_periodic_task(
        args='["eu", 7]', kwargs='{"a": [1]}', headers='{"tenant": "x"}', queue="reports", priority=3
    )
    import_beat(author="ann", now=NOW)
    send(context(Job.objects.get().metadata))
    message = next_message("reports")
    assert message.headers["task"] == "shop.report"
    assert message.headers["id"] == "00000000-0000-5000-8000-000000000001"
    assert (message.headers["tenant"], message.headers["periodic_task_name"]) == ("x", "report")
    assert message.payload[:2] == [["eu", 7], {"a": [1]}]
    assert message.properties["priority"] == 3


def next_message(queue: str) -> Any:
    """The next message in the queue, with headers and properties."""
    declared: Any = current_app.amqp.queues[queue]
    with current_app.connection_for_read() as connection:
        message = connection.SimpleQueue(declared).get_nowait()
        message.ack()
    return message


@pytest.mark.parametrize("metadata", [{}, {"celery_task": "a", "celery_args": "["}])
def test_a_job_whose_metadata_names_no_message_is_not_retried(metadata: dict[str, str]) -> None:
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
def test_the_function_of_imported_jobs_is_registered_by_code() -> None:
    function = registry.function(FUNCTION)
    assert function is not None
    assert function.call is send


def test_an_imported_row_is_disabled_and_beats_are_notified() -> None:
    saved_periodic_task()
    PeriodicTasks.objects.all().delete()
    import_beat(author="ann", now=NOW)
    assert not PeriodicTask.objects.get().enabled
    assert PeriodicTasks.last_change() is not None


def test_a_row_that_was_kept_enabled_can_be_disabled_by_a_later_import() -> None:
    saved_periodic_task()
    assert not import_beat(author="ann", now=NOW, switch_off=False)[0].off
    assert PeriodicTask.objects.get().enabled
    (again,) = import_beat(author="ann", now=NOW)
    assert (again.fate, again.off) == ("already imported", True)
    assert not PeriodicTask.objects.get().enabled
    assert JobVersion.objects.count() == 1


@pytest.mark.parametrize("columns", [{"enabled": False}, {"removed_at": NOW}])
def test_a_row_whose_job_was_stopped_stays_enabled(columns: dict[str, Any]) -> None:
    saved_periodic_task()
    import_beat(author="ann", now=NOW)
    Job.objects.update(**columns)
    PeriodicTask.objects.update(enabled=True)
    (report,) = import_beat(author="ann", now=NOW)
    assert (report.fate, report.off) == ("already imported", False)
    assert PeriodicTask.objects.get().enabled


def test_a_disabled_row_becomes_a_disabled_job() -> None:
    saved_periodic_task(enabled=False)
    (report,) = import_beat(author="ann", now=NOW)
    assert (report.fate, report.off) == ("imported", False)
    assert not Job.objects.get().enabled


def test_a_job_edited_after_its_import_is_not_changed() -> None:
    saved_periodic_task()
    import_beat(author="ann", now=NOW)
    Job.objects.update(schedule="@daily")
    assert import_beat(author="ann", now=NOW)[0].schedule == "@daily"
    assert Job.objects.get().schedule == "@daily"


def test_a_row_with_the_name_of_another_job_is_refused_and_stays_enabled() -> None:
    saved(a_job("report", NOW))
    saved_periodic_task()
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
def test_arguments_that_are_not_valid_json_are_refused(columns: dict[str, Any], reason: str) -> None:
    saved_periodic_task("good")
    saved_periodic_task("bad", **columns)
    reports = {report.name: report for report in import_beat(author="ann", now=NOW)}
    assert (reports["good"].fate, reports["bad"].fate) == ("imported", "refused")
    assert reports["bad"].reason == reason
