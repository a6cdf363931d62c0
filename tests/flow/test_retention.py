"""Old rows go by each job's retention; counters never fall, instants never come back."""

from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command

from jobs import Context, Job, Retry, control
from occurrences.models import Attempt, Occurrence, TaskRun
from recovery import pruning, totals
from recovery.audit import Asked
from recovery.models import Audit, PruneRound, Tally
from recovery.oldest import Keeps
from recovery.replay import replay
from recovery.retention import Kept, outlook, prunable, prune
from recovery.verify import verify
from tests.harness import Harness

pytestmark = pytest.mark.req("REC-6")

BY = Asked("ada")


def noop(ctx: Context) -> None: ...


def broken(ctx: Context) -> None:
    raise ValueError("broken")


def lived(harness: Harness, minutes: int = 6) -> None:
    for _ in range(minutes):
        harness.pass_time(minutes=1)
        harness.tick()
        harness.work()


def by_hand(harness: Harness) -> None:
    """The beats' own pruning has just been done."""
    later = harness.now + timedelta(days=1000)
    PruneRound.objects.create(pk=pruning.ONLY, due_at=later, began_at=later)


def pruned(name: str, now: datetime) -> Kept:
    return prune(control.get(name), asked=BY, now=now) or pytest.fail(f"{name} keeps everything")


@pytest.fixture
def jobs(harness: Harness) -> Harness:
    Job("short", "* * * * *", retention="3m", overlap="allow").task(noop)
    Job("long", "* * * * *", retention="30d").task(noop)
    Job("ever", "* * * * *").task(noop)
    harness.sync()
    by_hand(harness)
    lived(harness)
    return harness


def everything() -> list[Any]:
    return [totals.occurrences(), totals.attempts(), totals.recoveries()]


def test_each_job_keeps_what_its_retention_says(jobs: Harness) -> None:
    before = {name: len(jobs.finished(name)) for name in ("short", "long", "ever")}
    assert prune(control.get("ever"), asked=BY, now=jobs.now) is None
    assert pruned("long", jobs.now) == Kept("long", jobs.now - timedelta(days=30), 0)
    cutoff = jobs.now - timedelta(minutes=3)
    assert prunable(control.get("short"), cutoff).count() == 2
    assert outlook([Keeps(control.get("short").id, cutoff)], 100).count == 2
    assert pruned("short", jobs.now) == Kept("short", cutoff, 2)
    after = {name: len(jobs.finished(name)) for name in before}
    assert after == before | {"short": before["short"] - 2}
    ends = [row.finished_at for row in jobs.occurrences("short") if row.finished_at]
    assert min(ends) == cutoff, "counted from its end: this one ended just then"


@pytest.mark.req("OPS-4")
def test_counters_are_the_same_before_and_after_and_go_on_counting(jobs: Harness) -> None:
    jobs.pass_time(minutes=10)  # downtime, so that recovery counts something, too
    lived(jobs)
    before = everything()
    assert any("short" in key for key in before[2])
    pruned("short", jobs.now)
    assert Tally.objects.exists()
    assert everything() == before
    lived(jobs, 3)
    pruned("short", jobs.now)
    assert everything()[0]["short", "completed"] == before[0]["short", "completed"] + 3


@pytest.mark.req("OCC-2")
def test_pruned_instants_do_not_come_back_and_are_not_taken_for_lost(jobs: Harness) -> None:
    jobs.pass_time(minutes=10)
    jobs.tick()
    jobs.work()
    pruned("short", jobs.now + timedelta(hours=1))
    rest = len(jobs.finished("short"))
    jobs.tick()
    jobs.work()
    assert len(jobs.finished("short")) == rest
    assert list(verify(control.get("short"), now=jobs.now)) == []


def test_what_is_not_over_and_dead_letters_nobody_dealt_with_stay(harness: Harness) -> None:
    Job("job", "* * * * *", retention="1m", retry=Retry(0, "1s"), overlap="allow").task(broken)
    harness.sync()
    by_hand(harness)
    harness.pass_time(minutes=1)
    harness.tick()
    harness.work()
    harness.pass_time(minutes=1)
    harness.tick()
    later = harness.now + timedelta(days=1)
    assert pruned("job", later).pruned == 0
    assert {"failed", "dispatched"} <= set(harness.states("job"))
    TaskRun.objects.filter(state="dlq").update(resolved_at=harness.now, resolution="purged")
    assert pruned("job", later).pruned == 1
    assert not Attempt.objects.exists()


def test_a_replay_outlives_what_it_repeated(jobs: Harness) -> None:
    old = jobs.occurrences("short")[0]
    jobs.pass_time(days=1)
    (made,) = replay([old.id], asked=Asked("ada"), now=jobs.now).made
    pruned("short", jobs.now)
    assert Occurrence.objects.get(id=made).parent_id is None
    assert not Occurrence.objects.filter(id=old.id).exists()


def test_nothing_else_refers_to_the_rows_that_are_deleted_behind_django_s_back() -> None:
    """Retention deletes by hand what it knows of; a new table that refers to these must be added there."""
    referring = {
        (relation.related_model.__name__, model.__name__)
        for model in (Occurrence, TaskRun, Attempt)
        for relation in model._meta.related_objects
    }
    assert referring == {
        ("IdempotencyKey", "Occurrence"),
        ("Occurrence", "Occurrence"),
        ("TaskRun", "Occurrence"),
        ("Attempt", "TaskRun"),
    }
    assert apps.is_installed("recovery")


@pytest.mark.req("OPS-3")
def test_the_command_prunes_every_job_and_leaves_an_entry(jobs: Harness) -> None:
    for words, left in (["--dry-run"], 6), ([], 0):
        out = StringIO()
        call_command("prune", *words, "--by", "cron", stdout=out)  # the database's clock is months ahead
        assert "job=short" in out.getvalue()
        assert len(jobs.finished("short")) == left
    assert len(jobs.finished("ever")) == 6
    entry = Audit.objects.get()
    assert (entry.requested_by, entry.count, entry.details) == ("cron", 12, {"jobs": "all"}), "short and long"
