"""Old rows are pruned by retention; counters never decrease and pruned instants are not planned again."""

from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command

from punctual import Context, Job, Retry
from punctual.conf import current_settings
from punctual.jobs import control
from punctual.occurrences.engines.contract import Cutoff
from punctual.occurrences.models import Attempt, IdempotencyKey, Occurrence, TaskRun
from punctual.occurrences.operator import trigger
from punctual.operations.models import Audit
from punctual.operations.prune_actions import prune_job
from punctual.recovery import counters, pruning
from punctual.recovery.models import PruneRound, Tally
from punctual.recovery.pruning import PruneResult, prune_step
from punctual.recovery.replay import replay
from punctual.recovery.requester import Requester
from punctual.recovery.retention import cutoff_of, preview_pruning, prunable
from punctual.recovery.verification.verify import verify
from tests.harness import Harness

pytestmark = pytest.mark.req("REC-6")

BY = Requester("ada")


def noop(ctx: Context) -> None: ...


def broken(ctx: Context) -> None:
    raise ValueError("broken")


def run_for(harness: Harness, minutes: int = 6) -> None:
    for _ in range(minutes):
        harness.pass_time(minutes=1)
        harness.tick()
        harness.work()


def disable_pruning_by_beats(harness: Harness) -> None:
    """Set the next round of the beats' pruning far into the future."""
    later = harness.now + timedelta(days=1000)
    PruneRound.objects.create(pk=pruning.ROUND_ID, due_at=later, began_at=later)


def prune_now(name: str, now: datetime) -> PruneResult:
    return prune_job(control.get_job(name), requester=BY, now=now) or pytest.fail(f"{name} keeps everything")


@pytest.fixture
def jobs(harness: Harness) -> Harness:
    Job("short", "* * * * *", retention="3m", overlap="allow").task(noop)
    Job("long", "* * * * *", retention="30d").task(noop)
    Job("ever", "* * * * *").task(noop)
    harness.sync()
    disable_pruning_by_beats(harness)
    run_for(harness)
    return harness


def all_totals() -> list[Any]:
    return [counters.occurrence_totals(), counters.attempt_totals(), counters.recovery_totals()]


def test_each_job_keeps_occurrences_for_its_retention(jobs: Harness) -> None:
    before = {name: len(jobs.finished(name)) for name in ("short", "long", "ever")}
    assert prune_job(control.get_job("ever"), requester=BY, now=jobs.now) is None
    assert cutoff_of(control.get_job("long"), jobs.now) == jobs.now - timedelta(days=30)
    assert prune_now("long", jobs.now) == PruneResult(0)
    cutoff = jobs.now - timedelta(minutes=3)
    assert prunable(control.get_job("short"), cutoff).count() == 2
    assert preview_pruning([Cutoff(control.get_job("short").id, cutoff)], 100).count == 2
    assert cutoff_of(control.get_job("short"), jobs.now) == cutoff
    assert prune_now("short", jobs.now) == PruneResult(2)
    after = {name: len(jobs.finished(name)) for name in before}
    assert after == before | {"short": before["short"] - 2}
    ends = [row.finished_at for row in jobs.occurrences("short") if row.finished_at]
    assert min(ends) == cutoff, "retention counts from the end: this one ended exactly then"


@pytest.mark.req("OPS-4")
def test_counters_do_not_change_by_pruning_and_keep_counting(jobs: Harness) -> None:
    jobs.pass_time(minutes=10)  # downtime, so that occurrences are recovered
    run_for(jobs)
    before = all_totals()
    assert any("short" in key for key in before[2])
    prune_now("short", jobs.now)
    assert Tally.objects.exists()
    assert all_totals() == before
    run_for(jobs, 3)
    prune_now("short", jobs.now)
    assert all_totals()[0]["short", "completed"] == before[0]["short", "completed"] + 3


@pytest.mark.req("OCC-2")
def test_pruned_instants_are_not_planned_again_and_are_no_difference_for_verify(jobs: Harness) -> None:
    jobs.pass_time(minutes=10)
    jobs.tick()
    jobs.work()
    prune_now("short", jobs.now + timedelta(hours=1))
    rest = len(jobs.finished("short"))
    jobs.tick()
    jobs.work()
    assert len(jobs.finished("short")) == rest
    assert list(verify(control.get_job("short"), now=jobs.now)) == []


def test_unfinished_occurrences_and_unresolved_dead_letters_are_not_pruned(harness: Harness) -> None:
    Job("job", "* * * * *", retention="1m", retry=Retry(0, "1s"), overlap="allow").task(broken)
    harness.sync()
    disable_pruning_by_beats(harness)
    harness.pass_time(minutes=1)
    harness.tick()
    harness.work()
    harness.pass_time(minutes=1)
    harness.tick()
    later = harness.now + timedelta(days=1)
    assert prune_now("job", later).pruned == 0
    assert {"failed", "dispatched"} <= set(harness.states("job"))
    TaskRun.objects.filter(state="dlq").update(resolved_at=harness.now, resolution="purged")
    assert prune_now("job", later).pruned == 1
    assert not Attempt.objects.exists()


def test_a_replay_stays_when_its_parent_is_pruned(jobs: Harness) -> None:
    old = jobs.occurrences("short")[0]
    jobs.pass_time(days=1)
    (created,) = replay([old.id], requester=Requester("ada"), now=jobs.now).created
    prune_now("short", jobs.now)
    assert Occurrence.objects.get(id=created).parent_id is None
    assert not Occurrence.objects.filter(id=old.id).exists()


@pytest.mark.req("TSK-4")
def test_an_idempotency_key_outlives_its_pruned_occurrence_and_is_deleted_when_it_expires(
    jobs: Harness,
) -> None:
    job = control.get_job("short")
    first = trigger(job, args={"order": 7}, now=jobs.now, idempotency_key="order-7")
    jobs.tick()
    jobs.work()
    jobs.pass_time(hours=2)
    prune_now("short", jobs.now)
    assert not Occurrence.objects.filter(id=first).exists()
    assert trigger(job, args={"order": 7}, now=jobs.now, idempotency_key="order-7") == first
    assert not Occurrence.objects.filter(id=first).exists(), "a known key creates nothing"

    PruneRound.objects.all().delete()  # the beats prune again
    lifetime = current_settings().idempotency_lifetime
    prune_step(jobs.now + lifetime - timedelta(hours=2, seconds=1))
    assert IdempotencyKey.objects.exists()
    prune_step(jobs.now + lifetime)
    assert not IdempotencyKey.objects.exists()


def test_no_other_table_refers_to_the_rows_that_pruning_deletes_without_django() -> None:
    """Pruning deletes dependent rows itself; a new table that refers to these must be added there."""
    referring = {
        (relation.related_model.__name__, model.__name__)
        for model in (Occurrence, TaskRun, Attempt)
        for relation in model._meta.related_objects
    }
    assert referring == {
        ("Occurrence", "Occurrence"),
        ("TaskRun", "Occurrence"),
        ("HookCall", "Occurrence"),
        ("Attempt", "TaskRun"),
    }
    assert apps.is_installed("punctual")


@pytest.mark.req("OPS-3")
def test_the_command_prunes_every_job_and_writes_an_audit_entry(jobs: Harness) -> None:
    for words, left in (["--dry-run"], 6), ([], 0):
        out = StringIO()
        call_command(
            "punctual", "prune", *words, "--by", "cron", stdout=out
        )  # the database's clock is months ahead
        assert "job=short" in out.getvalue()
        assert len(jobs.finished("short")) == left
    assert len(jobs.finished("ever")) == 6
    entry = Audit.objects.get()
    assert (entry.requested_by, entry.count, entry.details) == ("cron", 12, {"jobs": "all"}), "short and long"
