from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

import punctual
from punctual.jobs import ledger_interface
from punctual.jobs.clock import database_now
from punctual.jobs.errors import PunctualError, UnknownJobError
from punctual.jobs.models import Job, Origin
from punctual.occurrences.models import Occurrence
from tests.occurrences.factories import a_job, saved

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    return saved(a_job("nightly", datetime(2026, 1, 5, 12, tzinfo=UTC)))


@pytest.fixture
def disconnected() -> Iterator[None]:
    connected = list(ledger_interface._connected)
    ledger_interface._connected.clear()
    yield
    ledger_interface._connected[:] = connected


@pytest.mark.parametrize("act", [punctual.trigger, punctual.pause, punctual.resume, punctual.next_runs])
def test_an_unknown_name_is_refused_by_name(act: object) -> None:
    with pytest.raises(UnknownJobError, match="no job is named 'nightlly'") as caught:
        act("nightlly")  # type: ignore[operator]
    assert caught.value.name == "nightlly"


@pytest.mark.req("OCC-9")
def test_a_trigger_creates_a_manual_occurrence_due_at_the_database_s_now(job: Job) -> None:
    before = database_now()
    id_ = punctual.trigger("nightly", args={"day": "monday"})
    row = Occurrence.objects.get(id=id_)
    assert isinstance(id_, UUID)
    assert (row.cause, row.state, row.args) == ("manual", "pending", {"day": "monday"})
    assert before <= row.run_at <= database_now()


def test_a_removed_job_cannot_be_triggered(job: Job) -> None:
    Job.objects.update(removed_at=database_now())
    with pytest.raises(PunctualError, match="'nightly' is no longer registered"):
        punctual.trigger("nightly")
    assert not Occurrence.objects.exists()


def test_a_job_of_a_polling_scheduler_cannot_be_triggered(job: Job) -> None:
    Job.objects.update(origin=Origin.POLLING)
    with pytest.raises(PunctualError, match="'nightly' is started by its own polling scheduler"):
        punctual.trigger("nightly")
    assert not Occurrence.objects.exists()


def test_without_the_ledger_nothing_can_be_triggered(job: Job, disconnected: None) -> None:
    with pytest.raises(PunctualError, match="`punctual` is not in INSTALLED_APPS"):
        punctual.trigger("nightly")


@pytest.mark.req("JOB-8")
def test_pause_and_resume_return_whether_they_changed_anything(job: Job) -> None:
    assert [punctual.pause("nightly"), punctual.pause("nightly")] == [True, False]
    job.refresh_from_db()
    assert job.paused_at is not None
    assert [punctual.resume("nightly"), punctual.resume("nightly")] == [True, False]
    job.refresh_from_db()
    assert not job.paused


@pytest.mark.req("OCC-8")
def test_pausing_touches_no_other_column(job: Job) -> None:
    punctual.pause("nightly")
    after = Job.objects.get()
    assert (after.updated_at, after.version, after.enabled) == (job.updated_at, 1, True)


@pytest.mark.req("JOB-8")
def test_the_next_runs_are_the_schedule_s_next_instants(job: Job) -> None:
    now = database_now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    instants = punctual.next_runs("nightly", 3)
    assert instants in ([hour + timedelta(hours=n + first) for n in range(3)] for first in (1, 2))
    assert len(punctual.next_runs("nightly")) == 5


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'stop_everything'"):
        _ = punctual.stop_everything
