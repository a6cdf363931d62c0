"""Slots, priorities, windows, `max`, and the overlap policies that keep the latest only."""

import pytest

from punctual import Context, Job, Retry
from punctual.jobs import control
from punctual.jobs.ledger_interface import connected_ledger
from punctual.occurrences.models import Occurrence, Pool
from punctual.recovery.sweeper.free_slots import admit_stranded
from tests.harness import Harness, at_the_hour, states_of


def noop(ctx: Context) -> None: ...


@pytest.mark.req("OCC-6")
def test_a_pool_never_exceeds_its_size_and_every_occurrence_runs(harness: Harness) -> None:
    Pool.objects.create(name="small", size=2)
    for number in range(5):
        Job(f"job-{number}", "0 * * * *", pool="small").task(noop)
    ticked = at_the_hour(harness)
    assert (ticked.fired, ticked.queued) == (2, 3)
    assert Occurrence.objects.active().count() == 2
    active = []
    while harness.step():
        active.append(Occurrence.objects.active().count())

    assert max(active) == 2
    assert [harness.finished(f"job-{number}") for number in range(5)] == [["completed"]] * 5


@pytest.mark.req("OCC-6")
def test_waiting_occurrences_start_by_priority_then_by_time(harness: Harness) -> None:
    order: list[str] = []

    def step(ctx: Context) -> None:
        order.append(ctx.job)

    Pool.objects.create(name="default", size=1)
    for name, priority in (("low", -5), ("first", 0), ("second", 0), ("high", 7)):
        Job(name, "0 9 1 1 *", priority=priority).task(name=name)(step)
    harness.sync()
    for name in ("low", "first", "second", "high"):
        connected_ledger().trigger(control.get_job(name), args={}, overrides={}, now=harness.now)
        harness.pass_time(milliseconds=1)
        harness.tick()
    harness.work()

    assert order == ["low", "high", "first", "second"], "the first one took the slot; then priority decides"


@pytest.mark.req("OCC-6")
def test_the_slot_of_a_dead_worker_becomes_free(harness: Harness) -> None:
    Pool.objects.create(name="default", size=1)
    Job("doomed", "0 * * * *", retry=Retry(0)).task(noop)
    Job("next", "0 * * * *", priority=-1).task(noop)
    at_the_hour(harness)
    harness.crash_worker()
    harness.live(seconds=33)

    assert (harness.finished("doomed"), harness.finished("next")) == (["failed"], ["completed"])


@pytest.mark.req("OCC-6")
def test_a_pool_grows_when_the_operator_resizes_it(harness: Harness) -> None:
    Job("job", "*/10 * * * * *", pool="mine", overlap="allow").task(noop)
    harness.sync()
    harness.tick()
    assert not Pool.objects.filter(name="mine").exists()
    harness.pass_time(seconds=10)
    harness.tick()
    assert Pool.objects.get(name="mine").size == 50, "created on first use"
    Pool.objects.update(size=0)
    harness.pass_time(seconds=10)
    harness.tick()
    assert harness.states("job")[:2] == ["dispatched", "queued"]
    Pool.objects.update(size=9)
    harness.tick()
    harness.work()
    assert harness.states("job")[:2] == ["completed", "completed"]


@pytest.mark.req("OCC-6")
def test_a_full_pool_with_a_long_queue_does_not_starve_another(harness: Harness) -> None:
    for name in ("full", "open"):
        Pool.objects.create(name=name, size=0)
    for number in range(3):
        Job(f"first-{number}", "0 * * * *", pool="full", priority=9).task(noop)
    Job("later", "0 * * * *", pool="open").task(noop)
    at_the_hour(harness)
    assert Occurrence.objects.waiting().count() == 4
    Pool.objects.filter(name="open").update(size=1)
    assert len(admit_stranded(harness.now, limit=2)) == 1

    assert harness.states("later")[0] == "dispatched"
    assert harness.states("first-0")[0] == "queued"


@pytest.mark.req("OCC-4")
def test_queue_latest_keeps_only_the_newest_waiting_occurrence(harness: Harness) -> None:
    Job("job", "*/10 * * * * *", overlap="queue_latest").task(noop)
    harness.sync()
    harness.pass_time(seconds=10)
    harness.tick()
    harness.crash_worker()
    for _ in range(2):
        harness.pass_time(seconds=10)
        harness.tick(sweeping=False)
    rows = harness.occurrences("job")[:3]
    assert states_of(rows) == ["running", "skipped", "queued"]
    assert rows[1].reason == "superseded"


@pytest.mark.req("OCC-4")
@pytest.mark.req("EXE-10")
def test_replace_cancels_the_running_one_and_starts_the_new_one(harness: Harness) -> None:
    Job("job", "*/10 * * * * *", overlap="replace").task(noop)
    harness.sync()
    harness.pass_time(seconds=10)
    harness.tick()
    harness.crash_worker()
    harness.pass_time(seconds=10)
    harness.tick()
    old, new = harness.occurrences("job")[:2]
    assert (old.state, old.reason, new.state) == ("canceled", "replaced", "dispatched")
    assert harness.attempts("job")[0].state == "canceled"
    harness.work()
    assert harness.states("job")[1] == "completed"


@pytest.mark.req("CHX-12")
def test_an_occurrence_that_cannot_start_within_its_window_is_missed(harness: Harness) -> None:
    Pool.objects.create(name="default", size=0)
    Job("job", "*/10 * * * * * {window:5s}").task(noop)
    harness.sync()
    harness.tick()
    harness.pass_time(seconds=16)
    harness.tick()
    first = harness.occurrences("job")[0]
    assert (first.state, first.reason) == ("missed", "window")


@pytest.mark.req("CHX-13")
def test_max_counts_starts_and_then_nothing_is_planned(harness: Harness) -> None:
    def fail(ctx: Context) -> None:
        raise ValueError("counts as a start")

    Job("job", "*/10 * * * * * {max:3}", retry=Retry(0)).task(fail)
    harness.sync()
    harness.live(seconds=70)

    assert harness.finished("job").count("failed") == 3
    assert set(harness.finished("job")) <= {"failed", "skipped"}
    assert len(harness.attempts("job")) == 3
    harness.live(seconds=120)
    assert harness.occurrences("job")[-1].scheduled_for < harness.now


@pytest.mark.req("REC-1")
def test_execute_all_of_an_exclusive_job_runs_one_after_the_other(harness: Harness) -> None:
    Job("job", "*/10 * * * *", recovery="execute_all").task(noop)
    harness.sync()
    harness.tick()
    harness.pass_time(minutes=61)
    harness.tick()
    harness.work()

    assert harness.finished("job") == ["completed"] * 6


@pytest.mark.req("JOB-2")
def test_an_occurrence_may_override_the_settings_of_its_job(harness: Harness) -> None:
    def fail(ctx: Context) -> None:
        raise ValueError

    Job("job", "0 9 1 1 *", retry=Retry(5, "1s")).task(fail)
    harness.sync()
    overrides = {"retry": {"max_retries": 0}, "priority": 3}
    connected_ledger().trigger(control.get_job("job"), args={}, overrides=overrides, now=harness.now)
    harness.tick()
    harness.work()

    assert harness.finished("job") == ["failed"]
    assert harness.occurrences("job")[0].priority == 3


@pytest.mark.req("JOB-8")
@pytest.mark.parametrize(("choice", "ran"), [("none", 0), ("last", 1), ("all", 3), ("compressed", 1)])
def test_resuming_runs_the_backlog_as_chosen(harness: Harness, choice: str, ran: int) -> None:
    Job("job", "*/10 * * * * *", overlap="allow").task(noop)
    harness.sync()
    harness.pause("job")
    harness.live(seconds=30)
    assert [harness.resume("job", backlog=choice) for _ in range(2)] == [True, False]
    harness.tick()
    harness.work()

    made = [row for row in harness.occurrences("job") if row.cause == "recovery"]
    assert states_of(made) == ["completed"] * ran
    assert all(row.parent is not None and row.parent.state == "skipped" for row in made)
    if choice == "compressed":
        assert made[0].covers is not None
        assert len(made[0].covers["instants"]) == 3
