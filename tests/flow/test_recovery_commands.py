"""`recover` and `reap` do by hand what every tick does by itself, with the database's clock."""

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from jobs import Context, Job
from occurrences.models import Attempt, Occurrence, TaskRun
from tests.harness import Harness, at_the_hour

pytestmark = pytest.mark.req("OPS-3")


def noop(ctx: Context) -> None: ...


def answer(command: str) -> dict[str, int]:
    out = StringIO()
    call_command(command, "--json", stdout=out)
    return dict(json.loads(out.getvalue()))


@pytest.mark.req("REC-1")
def test_recover_plans_what_was_missed_and_applies_the_strategy_once(harness: Harness) -> None:
    Job("job", "* * * * *", recovery="mark_as_missed").task(noop)
    harness.sync()
    harness.tick()
    first = answer("recover")  # months have passed since, by the database's clock
    assert first["in_ranges"] > 100_000
    missed = sum(Occurrence.objects.filter(state="missed").values_list("instants", flat=True))
    minutes = (timezone.now() - harness.now).total_seconds() // 60
    assert abs(missed - minutes) <= 5
    assert Occurrence.objects.count() < 20
    assert answer("recover") == {"planned": 0, "in_ranges": 0, "jobs": 0, "recovered": 0, "missed": 0}


@pytest.mark.req("REC-3")
def test_reap_records_a_lost_attempt_once_and_keeps_the_evidence(harness: Harness) -> None:
    Job("job", "0 * * * *").task(noop)
    at_the_hour(harness)
    harness.crash_worker()
    held = TaskRun.objects.get()
    assert answer("reap")["lost"] == 1
    assert answer("reap")["lost"] == 0
    (lost,) = Attempt.objects.all()
    assert (lost.state, lost.worker, lost.error_type) == ("lost", "doomed/1", "WorkerLost")
    assert (lost.lease_until, lost.heartbeat_at) == (held.lease_until, held.heartbeat_at)
