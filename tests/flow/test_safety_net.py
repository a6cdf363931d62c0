"""After crashes, lost messages and downtime nothing is lost and nothing runs twice."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual import Context, Job, Retry, scheduled
from punctual.execution.broker.dispatch import dispatch
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import FencedError, end_runs, report
from punctual.execution.worker.claim import report_of_claim
from punctual.jobs.declaration.registry import registry
from punctual.jobs.models import Job as JobRow
from punctual.occurrences.admission.firing import fire_due
from punctual.occurrences.models import Occurrence, Pool
from punctual.occurrences.planning.materialize import plan_due
from punctual.recovery.sweeper import sweep
from tests.harness import Harness, at_the_hour, hook_into, states_of


def noop(ctx: Context) -> None: ...


@pytest.mark.req("OCC-2")
def test_planning_the_same_instants_again_creates_nothing(harness: Harness) -> None:
    Job("job", "*/10 * * * * *").task(noop)
    harness.sync()
    plan_due(harness.now)
    before = [row.id for row in harness.occurrences("job")]
    # Another beat read the cursor before the first one wrote it:
    JobRow.objects.get().cursor.__class__.objects.update(planned_until=None, plan_at=harness.now)
    plan_due(harness.now)

    assert len(before) == 6
    assert [row.id for row in harness.occurrences("job")] == before


@pytest.mark.req("OCC-2")
def test_deleted_instants_are_not_planned_again(harness: Harness) -> None:
    Job("job", "*/10 * * * * *").task(noop)
    harness.sync()
    harness.live(seconds=30)
    assert harness.finished("job") == ["completed"] * 3
    Occurrence.objects.filter(finished_at__isnull=False).delete()
    harness.live(seconds=10)

    assert harness.finished("job") == ["completed"], "only the new instant"


@pytest.mark.req("OCC-7")
def test_a_beat_that_dies_before_publishing_delays_but_loses_nothing(harness: Harness) -> None:
    Job("job", "0 * * * *").task(noop)
    harness.now = harness.now.replace(minute=59, second=59)
    harness.sync()
    harness.tick()
    harness.pass_time(seconds=1)
    fired = fire_due(harness.now)  # committed; the process is killed before it publishes
    assert fired.fired == 1
    harness.live(seconds=4)
    assert harness.finished("job") == []
    harness.live(seconds=2)

    assert harness.finished("job") == ["completed"]
    assert states_of(harness.attempts("job")) == ["success"]


@pytest.mark.req("OCC-7")
def test_messages_the_broker_lost_are_sent_again(harness: Harness) -> None:
    Job("job", "0 * * * *").task(noop)
    at_the_hour(harness)
    assert harness.lose_messages() == 1
    harness.pass_time(minutes=5)
    harness.tick()
    harness.tick()
    assert harness.work() == 1, "sent again once, not in every sweep"

    assert harness.finished("job") == ["completed"]


@pytest.mark.req("OCC-7")
def test_a_backlog_in_the_queue_is_not_multiplied_by_resending(harness: Harness) -> None:
    for number in range(3):
        Job(f"job-{number}", "0 * * * *").task(noop)
    at_the_hour(harness)
    for _ in range(4):
        harness.pass_time(minutes=6)
        harness.tick()

    assert harness.lose_messages() == 3, "one message each, however long no worker takes them"


@pytest.mark.req("OCC-7")
def test_settlement_is_requested_once_while_no_worker_runs(harness: Harness) -> None:
    job = Job("job", "0 * * * *")
    job.task(noop)
    job.on_complete(lambda _report: None)
    at_the_hour(harness)
    (item,) = harness.crash_worker()
    report([report_of_claim(item, Result(Ending.SUCCESS))], now=harness.now)
    for _ in range(10):
        harness.pass_time(seconds=4)
        harness.tick()

    assert harness.lose_messages() == 1


@pytest.mark.req("OCC-7")
def test_a_resent_message_has_no_second_effect(harness: Harness) -> None:
    effects = []

    @scheduled("0 * * * *")
    def job(ctx: Context) -> None:
        effects.append(ctx.attempt_id)

    at_the_hour(harness)
    (run,) = harness.runs("job")
    dispatch([run.id], now=harness.now, chords=False, lost_since=harness.now)
    harness.work()

    assert len(harness.received) == 2
    assert len(effects) == 1
    assert states_of(harness.attempts("job")) == ["success"]


@pytest.mark.req("REC-3")
@pytest.mark.req("TSK-2")
def test_the_run_of_a_dead_worker_is_retried_and_its_lease_is_recorded(harness: Harness) -> None:
    Job("job", "0 * * * *", retry=Retry(1, "1s")).task(noop)
    harness.now = harness.now.replace(minute=59, second=59)
    harness.sync()
    harness.tick()
    claimed_at = harness.pass_time(seconds=1)
    harness.tick()
    harness.crash_worker()
    harness.live(seconds=29)
    assert states_of(harness.attempts("job")) == ["running"]
    harness.live(seconds=3)

    lost, retried = harness.attempts("job")
    assert (lost.state, retried.state) == ("lost", "success")
    assert (lost.worker, lost.lease_until) == ("doomed/1", claimed_at + timedelta(seconds=30))
    assert lost.heartbeat_at == claimed_at
    assert harness.finished("job") == ["completed"]


@pytest.mark.req("TSK-2")
@pytest.mark.req("EXE-6")
def test_a_late_result_of_a_lost_attempt_is_rejected(harness: Harness) -> None:
    Job("job", "0 * * * *", retry=Retry(1, "1s")).task(noop)
    at_the_hour(harness)
    (zombie,) = harness.crash_worker()
    harness.live(seconds=40)
    assert harness.finished("job") == ["completed"]
    before = [vars(run) | {"_state": None} for run in harness.runs("job")]
    late = report_of_claim(zombie, Result(Ending.FAILED))

    assert report([late], now=harness.now).fenced == 1
    with pytest.raises(FencedError):
        end_runs([late], now=harness.now, strict=True)
    after = [vars(run) | {"_state": None} for run in harness.runs("job")]
    assert [row["state"] for row in after] == [row["state"] for row in before] == ["success"]


@pytest.mark.req("EXE-6")
def test_a_failing_transactional_task_leaves_no_effect(harness: Harness) -> None:
    job = Job("job", "0 * * * *", retry=Retry(1, "1s"))

    @job.task(transactional=True)
    def load(ctx: Context) -> None:
        JobRow.objects.update(metadata={"touched by": str(ctx.attempt)})
        if ctx.attempt == 0:
            raise ValueError("after the write")

    harness.now = harness.now.replace(minute=59, second=59)
    harness.sync()
    harness.live(seconds=1)
    assert JobRow.objects.get().metadata == {}
    harness.live(seconds=3)

    assert JobRow.objects.get().metadata == {"touched by": "1"}
    assert states_of(harness.attempts("job")) == ["failed", "success"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.req("EXE-6")
def test_a_transactional_task_that_commits_by_itself_keeps_its_write(harness: Harness) -> None:
    """As the documentation of the guarantee says: only an open transaction can be rolled back."""
    job = Job("job", "0 * * * *")

    @job.task(transactional=True)
    def load(ctx: Context) -> None:
        JobRow.objects.update(metadata={"touched by": str(ctx.attempt)})
        with connection.cursor() as cursor:
            cursor.execute("COMMIT")
        raise ValueError("after the commit")

    harness.now = harness.now.replace(minute=59, second=59)
    harness.sync()
    harness.live(seconds=1)
    assert JobRow.objects.get().metadata == {"touched by": "0"}
    assert states_of(harness.attempts("job")) == ["failed"]


@pytest.mark.req("REC-1")
@pytest.mark.parametrize(
    ("config", "ran"),
    [
        ({"recovery": "execute_all"}, 6),
        ({"recovery": "execute_last"}, 1),
        ({"recovery": "mark_as_missed"}, 0),
        ({"recovery": "bounded_window", "recovery_max_occurrences": 2}, 2),
        ({"recovery": "bounded_window", "recovery_max_duration": "25m"}, 3),
    ],
)
def test_downtime_is_recovered_by_the_strategy_of_the_job(
    harness: Harness, config: dict[str, Any], ran: int
) -> None:
    Job("job", "*/10 * * * *", overlap="allow", **config).task(noop)
    harness.sync()
    harness.tick()
    harness.pass_time(minutes=61)  # 12:10 … 13:00 went by, 13:01:30 is now
    harness.tick()
    harness.work()

    past = [row for row in harness.occurrences("job") if row.finished_at]
    assert [row.state for row in past] == ["missed"] * (6 - ran) + ["completed"] * ran
    assert {row.cause for row in past[6 - ran :]} <= {"recovery"}
    harness.tick()
    harness.work()
    assert len(harness.attempts("job")) == ran, "a second catch-up changes nothing"


@pytest.mark.req("REC-1")
def test_occurrences_within_the_grace_run_late_and_are_not_missed(harness: Harness) -> None:
    Job("job", "*/10 * * * * *", recovery="mark_as_missed", overlap="allow").task(noop)
    harness.sync()
    harness.tick()
    harness.pass_time(seconds=50)
    harness.tick()
    harness.work()

    assert harness.finished("job") == ["completed"] * 5


@pytest.mark.req("REC-3")
def test_a_hook_whose_worker_died_is_still_called(harness: Harness) -> None:
    job = Job("job", "0 * * * *")
    job.task(noop)
    called: list[object] = []
    job.on_complete(hook_into(called))
    at_the_hour(harness)
    (item,) = harness.crash_worker()
    report([report_of_claim(item, Result(Ending.SUCCESS))], now=harness.now)
    assert (harness.finished("job"), called) == (["completed"], [])
    harness.live(seconds=32)

    assert len(called) == 1
    harness.live(seconds=60)
    assert len(called) == 1


@pytest.mark.req("JOB-10")
def test_a_job_that_is_no_longer_declared_is_removed_and_can_return(harness: Harness) -> None:
    job = Job("job", "*/10 * * * * *")
    job.task(noop)
    harness.sync()
    harness.live(seconds=10)
    del registry.jobs["job"]
    assert harness.sync().removed == ("job",)
    harness.live(seconds=20)
    assert harness.finished("job") == ["completed"]
    registry.jobs["job"] = job
    assert harness.sync().overridden == ("job",)
    harness.live(seconds=10)

    assert harness.finished("job") == ["completed", "completed"]


@pytest.mark.req("OCC-6")
def test_a_sweep_admits_a_waiting_occurrence_when_no_settlement_does(harness: Harness) -> None:
    Job("job", "*/10 * * * * *", overlap="queue").task(noop)
    harness.sync()
    harness.pass_time(seconds=10)
    harness.tick()
    harness.crash_worker()
    harness.pass_time(seconds=10)
    harness.tick()
    assert harness.states("job")[:2] == ["running", "queued"]
    Occurrence.objects.filter(state="running").delete()
    sweep.run_once(harness.now)
    harness.work()

    assert harness.states("job")[0] == "completed"


def test_the_number_of_statements_of_a_tick_does_not_depend_on_what_is_due(harness: Harness) -> None:
    Pool.objects.create(name="default", size=100)
    statements = []
    for size in (3, 10):
        for number in range(size):
            Job(f"job-{size}-{number}", "*/10 * * * * *", overlap=("skip", "allow")[number % 2]).task(noop)
        harness.sync()
        harness.tick()
        harness.work()
        harness.pass_time(seconds=10)
        with CaptureQueriesContext(connection) as queries:
            ticked = harness.tick()
        harness.work()
        statements.append((ticked.fired, len(queries)))

    (few, cost_of_few), (many, cost_of_many) = statements
    assert (few, many) == (3, 13)
    assert cost_of_many == cost_of_few
