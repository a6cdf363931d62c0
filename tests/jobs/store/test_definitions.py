"""Remove and restore definitions: what is written, and for which jobs."""

from datetime import UTC, datetime, timedelta

import pytest

from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import DefinitionError, UnknownJobError
from punctual.jobs.ids import job_id
from punctual.jobs.models import Job, Origin
from punctual.jobs.store.definitions import Change, remove, restore, store
from punctual.occurrences.models import Occurrence
from punctual.occurrences.planning.materialize import plan_due

pytestmark = [pytest.mark.django_db, pytest.mark.req("JOB-5")]

NOW = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)
REMOVAL = Change(Origin.FILE, "ann", LATER, reason="not needed")


def stored(name: str, origin: Origin = Origin.FILE, schedule: str = "@hourly") -> Job:
    tasks = [{"name": "step", "function": "app.step"}]
    definition = Definition.load({"name": name, "schedule": schedule, "tasks": tasks})
    store([definition], Change(origin, "bob", NOW))
    return Job.objects.get(name=name)


def test_a_removal_marks_the_job_deletes_its_plan_and_is_one_version() -> None:
    job = stored("job")
    plan_due(NOW)
    assert Occurrence.objects.exists()
    assert remove([job.id], REMOVAL) == ("job",)
    job.refresh_from_db()
    assert (job.removed_at, job.updated_at, job.version, job.enabled) == (LATER, LATER, 2, True)
    version = job.versions.get(number=2)
    assert (version.author, version.reason, version.created_at) == ("ann", "not needed", LATER)
    assert (version.before, version.after["enabled"]) == (job.versions.get(number=1).after, False)
    assert not Occurrence.objects.exists()


def test_a_second_removal_changes_nothing() -> None:
    job = stored("job")
    remove([job.id], REMOVAL)
    assert remove([job.id], REMOVAL) == ()
    assert job.versions.count() == 2


@pytest.mark.parametrize("origin", [origin for origin in Origin if origin is not Origin.FILE])
def test_only_jobs_of_the_origin_of_the_change_are_removed(origin: Origin) -> None:
    jobs = [stored("theirs", origin).id, stored("ours").id, job_id("unknown")]
    assert remove(jobs, REMOVAL) == ("ours",)
    assert Job.objects.registered().get().name == "theirs"


def test_a_job_that_returns_continues_the_history_of_its_removal() -> None:
    job = stored("job")
    remove([job.id], REMOVAL)
    job = stored("job", schedule="@daily")
    removal, returned = job.versions.filter(number__gt=1).order_by("number")
    assert returned.before == removal.after
    assert (job.removed_at, returned.after["enabled"], returned.after["schedule"]) == (None, True, "@daily")


def test_a_restored_version_is_a_new_version_with_the_job_s_own_origin() -> None:
    stored("job")
    job = stored("job", schedule="@daily")
    restore("job", 1, Change(Origin.ADMIN, "ann", LATER))
    job.refresh_from_db()
    assert (job.version, job.schedule, job.origin) == (3, "@hourly", Origin.FILE)


def test_an_unknown_job_or_version_cannot_be_restored() -> None:
    with pytest.raises(UnknownJobError):
        restore("job", 1, REMOVAL)
    stored("job")
    with pytest.raises(DefinitionError, match="job: version=2: expected one of 1"):
        restore("job", 2, REMOVAL)


def test_a_job_declared_in_code_cannot_be_restored() -> None:
    stored("job", Origin.CODE)
    stored("job", Origin.CODE, schedule="@daily")
    with pytest.raises(DefinitionError, match="declared in code; change it there"):
        restore("job", 1, REMOVAL)
