"""Several beats plan, fire and reap the same rows at the same time."""

from collections import Counter
from datetime import timedelta

import pytest

from punctual import Job, Retry
from punctual.execution.broker.dispatch import Dispatched, dispatch
from punctual.execution.ending.cancel import cancel
from punctual.execution.worker.claim import claim
from punctual.jobs.models import Job as JobRow
from punctual.occurrences import transitions
from punctual.occurrences.admission.firing import Fired, fire_due
from punctual.occurrences.models import Attempt, Occurrence, Pool, TaskRun
from punctual.occurrences.planning.materialize import Planned, plan_due
from punctual.occurrences.states import OccurrenceState, Reason
from punctual.recovery.catchup import catch_up
from punctual.recovery.sweeper.free_slots import admit_stranded
from punctual.recovery.sweeper.reaper import Reaped, reap
from punctual.recovery.sweeper.retries import release_due_retries
from tests.harness import Harness, at_the_hour
from tests.race.threads import at_once, before_commit, names


def noop(ctx: object) -> None: ...


def plan_everything(harness: Harness, limit: int) -> int:
    total = 0
    while (step := plan_due(harness.now, limit=limit)) != Planned():
        total += step.instants
        if not step.jobs:
            break
    return total


def fire_everything(harness: Harness, limit: int) -> list[Fired]:
    steps = []
    while (step := fire_due(harness.now, limit=limit)).fired + step.queued + step.skipped:
        steps.append(step)
    return steps


@pytest.mark.req("OCC-2")
def test_four_beats_plan_each_instant_of_200_jobs_once(harness: Harness) -> None:
    for name in names(200):
        Job(name, "*/10 * * * * *").task(noop)
    harness.sync()
    planned = at_once(*(lambda: plan_everything(harness, 17) for _ in range(4)))

    assert Occurrence.objects.count() == 200 * 6
    assert sum(planned) == 200 * 6, "rows locked by another beat are left to that beat"
    instants = Counter(Occurrence.objects.values_list("scheduled_for", flat=True))
    assert set(instants.values()) == {200}


@pytest.mark.req("OCC-2")
@pytest.mark.req("OCC-4")
def test_four_beats_fire_300_due_rows_once_each_and_never_two_of_an_exclusive_job(
    harness: Harness,
) -> None:
    for number, name in enumerate(names(50)):
        overlap = ("skip", "queue", "allow")[number % 3]
        Job(name, "*/10 * * * * *", overlap=overlap, mode="parallel").task(noop)
    Pool.objects.create(name="default", size=1000)
    harness.sync()
    plan_due(harness.now)
    assert Occurrence.objects.count() == 300
    harness.pass_time(seconds=59)
    harness.pass_time(seconds=1)
    Occurrence.objects.update(late_at=None)

    steps = [
        step for steps in at_once(*(lambda: fire_everything(harness, 23) for _ in range(4))) for step in steps
    ]

    released = [id_ for step in steps for id_ in step.released]
    assert len(released) == len(set(released)) == TaskRun.objects.count()
    states = Counter(Occurrence.objects.values_list("job__name", "state"))
    for number, name in enumerate(names(50)):
        found = {state: count for (job, state), count in states.items() if job == name}
        expected = (
            {"dispatched": 1, "skipped": 5},
            {"dispatched": 1, "queued": 5},
            {"dispatched": 6},
        )[number % 3]
        assert found == expected
    assert sum(step.fired + step.queued + step.skipped for step in steps) == 300


@pytest.mark.req("OCC-2")
@pytest.mark.req("OCC-8")
def test_four_beats_plan_what_they_have_seen_once_while_jobs_are_edited(harness: Harness) -> None:
    for name in names(60):
        Job(name, "0 * * * *").task(noop)
    harness.sync()
    harness.tick()
    harness.now = harness.now.replace(hour=13, minute=0, second=0)
    seen = fire_due(harness.now).jobs
    assert len(seen) == 60
    edited = names(60)[::3]

    def edit() -> int:
        rows = JobRow.objects.filter(name__in=edited)
        return rows.update(schedule="30 * * * *", updated_at=harness.now)

    at_once(edit, *(lambda: plan_due(harness.now, limit=17, seen=seen).jobs for _ in range(4)))
    while plan_due(harness.now, seen=seen).jobs:
        pass

    ahead = Occurrence.objects.filter(scheduled_for__gt=harness.now)
    instants = dict(ahead.values_list("job__name", "scheduled_for"))
    assert ahead.count() == len(instants) == 60
    half, hour = timedelta(minutes=30), timedelta(hours=1)
    assert {name: instants[name] - harness.now for name in names(60)} == {
        name: half if name in edited else hour for name in names(60)
    }


@pytest.mark.req("REC-3")
@pytest.mark.req("TSK-5")
def test_four_reapers_record_one_loss(harness: Harness) -> None:
    Job("job", "0 * * * *", retry=Retry(3, "1s")).task(noop)
    at_the_hour(harness)
    harness.crash_worker()
    harness.pass_time(seconds=31)

    reaped: list[Reaped] = at_once(*(lambda: reap(harness.now) for _ in range(4)))

    assert sorted(item.lost for item in reaped) == [0, 0, 0, 1]
    (attempt,) = Attempt.objects.all()
    assert (attempt.state, attempt.worker) == ("lost", "doomed/1")
    assert attempt.lease_until == harness.now - timedelta(seconds=1)
    (run,) = TaskRun.objects.all()
    assert (run.state, run.attempts_made) == ("retry", 1)


@pytest.mark.req("REC-3")
def test_a_lease_renewed_while_a_reaper_waits_for_it_is_left_alone(harness: Harness) -> None:
    """The worker was slow, not dead: it renewed after the reaper had read the expired lease."""
    Job("job", "0 * * * *", retry=Retry(3, "1s")).task(noop)
    at_the_hour(harness)
    (item,) = harness.crash_worker()
    harness.pass_time(seconds=31)
    occurrence, token = item.run.occurrence.id, item.token

    def renew() -> int:
        transitions.lock_occurrences([occurrence])
        return int(transitions.renew(item.run.id, token=token, now=harness.now, lease=timedelta(seconds=30)))

    assert before_commit(renew, lambda: reap(harness.now).lost) == (1, 0)
    (run,) = TaskRun.objects.all()
    assert (run.state, run.claim_token) == ("running", token)
    assert Attempt.objects.get().state == "running"


@pytest.mark.req("REC-2")
def test_four_beats_catch_up_once(harness: Harness) -> None:
    for name in names(30):
        Job(name, "*/10 * * * *", overlap="allow", recovery="execute_last").task(noop)
    harness.sync()
    harness.pass_time(minutes=61)
    plan_everything(harness, 100)

    caught = at_once(*(lambda: catch_up(harness.now, limit=7) for _ in range(4)))
    while (step := catch_up(harness.now)).jobs:
        caught.append(step)

    assert sum(item.jobs for item in caught) == 30
    assert sum(item.recovered for item in caught) == 30
    states = Counter(Occurrence.objects.values_list("state", "cause"))
    assert states["missed", "schedule"] == 30 * 5
    assert states["pending", "recovery"] == 30


@pytest.mark.req("EXE-4")
def test_a_due_retry_is_released_by_one_beat(harness: Harness) -> None:
    for name in names(40):
        Job(name, "0 * * * *", overlap="allow").task(noop)
    harness.sync()
    harness.tick()
    harness.now = harness.now.replace(hour=13, minute=0, second=0)
    released = fire_due(harness.now).released
    claims = claim(released, worker="w", now=harness.now)
    assert len(claims) == 40
    TaskRun.objects.update(state="retry", claim_token=None, lease_until=None, available_at=harness.now)

    due = at_once(*(lambda: release_due_retries(harness.now, limit=9) for _ in range(4)))
    due.append(release_due_retries(harness.now))

    ids = [id_ for batch in due for id_ in batch]
    assert len(ids) == len(set(ids)) == 40
    assert not Occurrence.objects.exclude(
        state__in=[OccurrenceState.RUNNING, OccurrenceState.PENDING]
    ).exists()


@pytest.mark.req("OCC-7")
def test_a_slow_sender_and_three_sweepers_send_each_run_once(harness: Harness) -> None:
    for name in names(40):
        Job(name, "0 * * * *").task(noop)
    harness.sync()
    harness.tick()
    harness.now = harness.now.replace(hour=13, minute=0, second=0)
    fired = fire_due(harness.now)
    released = fired.released

    sent: list[Dispatched] = at_once(
        lambda: dispatch(fired.ready, now=harness.now),
        *(lambda: dispatch(released, now=harness.now) for _ in range(3)),
    )

    assert sum(item.sent for item in sent) == len(released) == 40
    assert harness.lose_messages() == 40
    assert len({id_ for id_, _ in harness.received}) == 40


@pytest.mark.req("OCC-6")
def test_four_beats_and_workers_that_settle_never_fill_a_pool_beyond_its_size(harness: Harness) -> None:
    Pool.objects.create(name="default", size=7)
    for name in names(60):
        Job(name, "0 * * * *").task(noop)
    harness.sync()
    harness.tick()
    harness.now = harness.now.replace(hour=13, minute=0, second=0)
    at_once(*(lambda: fire_everything(harness, 9) for _ in range(4)))
    states = Counter(Occurrence.objects.values_list("state", flat=True))
    assert states == {"dispatched": 7, "queued": 53}

    finished = 0
    while active := list(Occurrence.objects.active().values_list("id", flat=True)):
        # Three workers end active occurrences while a beat admits waiting ones.
        at_once(
            *(
                lambda ids=active[part::3]: cancel(ids, reason=Reason.OPERATOR, now=harness.now)
                for part in range(3)
            ),
            lambda: admit_stranded(harness.now),
        )
        finished += len(active)
        assert Occurrence.objects.active().count() == min(7, 60 - finished)
    assert finished == 60
