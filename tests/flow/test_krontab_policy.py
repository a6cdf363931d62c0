"""`@policy` of a krontab is applied: concurrency is overlap, deadline a window, suspend a pause (KRN-10)."""

from collections import Counter
from datetime import timedelta

import pytest

import punctual
from punctual import Context, Job
from punctual.jobs.condition import Condition, condition, in_condition
from punctual.jobs.config.cascade import job_config
from punctual.jobs.errors import DefinitionError
from punctual.jobs.models import HELD
from punctual.jobs.models import Job as JobRow
from tests.harness import Harness

pytestmark = [pytest.mark.django_db, pytest.mark.req("KRN-10")]


def step(ctx: Context) -> None: ...


def declare(harness: Harness, policy: str, **config: object) -> None:
    job = Job("krontab", f"kron:* * * * * @policy({policy})", **config)  # type: ignore[arg-type]
    job.task(step)
    harness.start_at(harness.now.replace(second=0, microsecond=0))


def minutes(harness: Harness, count: int) -> None:
    """Let beats tick, but no worker work."""
    for _ in range(count * 4):
        harness.tick()
        harness.pass_time(seconds=15)


@pytest.mark.parametrize(
    ("concurrency", "states"),
    [
        ("allow", {"dispatched": 2}),
        ("forbid", {"dispatched": 1, "skipped": 1}),
        ("replace", {"canceled": 1, "dispatched": 1}),
    ],
)
def test_concurrency_decides_about_an_overlap(
    harness: Harness, concurrency: str, states: dict[str, int]
) -> None:
    declare(harness, f"concurrency={concurrency}")
    minutes(harness, 3)
    past = [row.state for row in harness.occurrences("krontab") if row.state != "pending"]
    assert Counter(past) == states


def test_what_the_text_states_is_a_layer_of_the_settings(harness: Harness) -> None:
    declare(harness, "concurrency=allow")
    config = job_config(JobRow.objects.get())
    assert (config.overlap, config.origin("overlap")) == ("allow", "schedule")
    assert job_config(JobRow.objects.get(), {"overlap": "skip"}).overlap == "skip"
    assert job_config(JobRow(name="x", schedule="kron:* * * * *", config={})).origin("overlap") == "default"


def test_a_setting_that_contradicts_the_text_is_refused() -> None:
    with pytest.raises(DefinitionError, match="overlap='skip': the schedule's @policy says allow"):
        Job("krontab", "kron:* * * * * @policy(concurrency=allow)", overlap="skip")
    Job("krontab", "kron:* * * * * @policy(concurrency=allow)", overlap="allow")


def test_a_start_after_the_deadline_is_missed(harness: Harness) -> None:
    declare(harness, "deadline=20s", misfire_grace="1h")
    harness.tick()
    harness.pass_time(seconds=60 + 21)
    harness.tick()
    first = harness.occurrences("krontab")[0]
    assert first.expires_at == first.scheduled_for + timedelta(seconds=20)
    assert first.state == "missed"


@pytest.mark.req("KRN-11")
def test_a_spread_beyond_the_deadline_is_skipped(harness: Harness) -> None:
    job = Job("krontab", "kron:0 * * * * @win(after,10m) @policy(deadline=1s)")
    job.task(step)
    harness.sync()
    harness.tick()
    assert [(row.state, row.reason) for row in harness.occurrences("krontab")][:1] == [("skipped", "window")]


@pytest.mark.req("JOB-8")
def test_a_suspended_job_records_its_instants_and_starts_none(harness: Harness) -> None:
    declare(harness, "suspend=true")
    harness.live(minutes=2, step=10)
    rows = harness.occurrences("krontab")
    assert {(row.state, row.reason) for row in rows if row.state != "pending"} == {("skipped", "paused")}
    job = JobRow.objects.get()
    assert punctual.is_paused("krontab")
    assert not punctual.is_enabled("krontab")
    assert condition(job, job.tasks.all()) == Condition.PAUSED
    with pytest.raises(DefinitionError, match="its @policy says suspend=true; change the schedule"):
        punctual.resume("krontab")


@pytest.mark.req("JOB-8")
@pytest.mark.parametrize("beats_ran", [True, False], ids=["beats ran", "no beat ran"])
def test_after_the_suspension_only_later_instants_run(harness: Harness, *, beats_ran: bool) -> None:
    declare(harness, "suspend=true")
    if beats_ran:
        harness.live(minutes=3, step=10)
    else:
        harness.tick()
        harness.pass_time(minutes=3)
    edited_at = harness.now
    from punctual.jobs.declaration.registry import registry  # noqa: PLC0415

    registry.remove_job("krontab")
    Job("krontab", "kron:* * * * * @policy(suspend=false)").task(step)
    harness.sync()
    harness.live(minutes=2, step=10)
    rows = harness.occurrences("krontab")
    before = {(row.state, row.reason) for row in rows if row.scheduled_for <= edited_at}
    assert before == {("skipped", "paused")}
    assert "completed" in {row.state for row in rows if row.scheduled_for > edited_at}


@pytest.mark.parametrize(
    ("schedule", "suspended"),
    [
        ("kron:0 0 * * * @policy(suspend=true)", True),
        ("KRON:0 0 * * * @win(after,1h) @policy(deadline=1h,suspend=true) {until:2030-01-01}", True),
        ('kron:0 0 * * * @policy(suspend="true",deadline=1h)', True),
        ("kron:0 0 * * * @policy(suspend=false)", False),
        ("kron:0 0 * * *", False),
        ("0 0 * * * {tag:suspend}", False),
        ("kron:broken @policy(suspend=perhaps)", False),
    ],
)
def test_queries_and_rows_agree_on_what_is_suspended(
    harness: Harness, schedule: str, *, suspended: bool
) -> None:
    declare(harness, "deadline=1h")
    JobRow.objects.update(schedule=schedule)
    assert JobRow.objects.get().suspended is suspended
    assert JobRow.objects.filter(HELD).exists() is suspended
    assert JobRow.objects.filter(in_condition("paused")).exists() is suspended
    assert JobRow.objects.filter(in_condition("active")).exists() is not suspended
