"""Polling schedulers as real processes: one is killed during a callback, several start together."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from punctual.occurrences.models import Attempt, Occurrence
from punctual.occurrences.states import AttemptState, OccurrenceState
from punctual.polling.models import Roster
from tests.cluster.processes import ALIAS, ROOT, Cluster, Process
from tests.polling.program import FAILURES, LEASE

pytestmark = [pytest.mark.cluster]

START_TIMEOUT = 60.0
BOUND = timedelta(minutes=1)  # maximum delay until an interrupted callback starts again
both_databases = pytest.mark.parametrize("cluster", ["postgres", "sqlite"], indirect=True)


def start(cluster: Cluster, behaviour: str) -> Process:
    name = f"{behaviour}{len(cluster.processes) + 1}"
    log = cluster.folder / f"{name}.log"
    with log.open("wb") as output:
        popen = subprocess.Popen(
            [sys.executable, "-m", "tests.polling.program", behaviour, str(notes(cluster))],
            cwd=ROOT,
            env=cluster.environment | {"DJANGO_SETTINGS_MODULE": "scheduler_project.settings"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    cluster.guardian.watch(popen.pid)
    process = Process(name, popen, log)
    cluster.processes.append(process)
    return process


def notes(cluster: Cluster) -> Path:
    return cluster.folder / "notes"


def words(cluster: Cluster) -> list[str]:
    """The notes of the callbacks in order, without those of the processes."""
    lines = notes(cluster).read_text().splitlines() if notes(cluster).exists() else []
    return [word for line in lines if (word := line.split()[0]) in {"start", "end"}]


def first_attempts() -> list[Attempt]:
    """Attempts of the first started minute; later minutes have tsuccessor own occurrences."""
    first = Occurrence.objects.using(ALIAS).order_by("scheduled_for").first()
    rows = Attempt.objects.using(ALIAS).filter(run__occurrence=first) if first else Attempt.objects.none()
    return list(rows.order_by("number"))


@both_databases
@pytest.mark.req("POL-3")
def test_a_callback_killed_with_its_process_runs_again_once_after_the_restart(cluster: Cluster) -> None:
    victim = start(cluster, "hang")
    cluster.wait_until(lambda: words(cluster), timeout=START_TIMEOUT, describe="the callback has started")
    cluster.kill(victim)
    successor = start(cluster, "quick")
    cluster.wait_until(lambda: "end" in words(cluster), timeout=START_TIMEOUT, describe="it has run again")
    cluster.stop(successor)

    lost, again = first_attempts()
    assert (lost.state, again.state) == (AttemptState.LOST, AttemptState.SUCCESS)
    assert lost.lease_until is not None
    assert again.started_at >= lost.lease_until
    initialized_at = Roster.objects.using(ALIAS).get().initialized_at
    assert initialized_at is not None
    assert again.started_at <= initialized_at + LEASE + BOUND
    ended = Occurrence.objects.using(ALIAS).values_list("state", flat=True)
    assert set(ended) == {OccurrenceState.COMPLETED}


@both_databases
@pytest.mark.req("POL-4")
def test_processes_that_initialize_together_never_run_a_task_at_the_same_time(cluster: Cluster) -> None:
    processes = [start(cluster, "flaky") for _ in range(3)]
    cluster.wait_until(
        lambda: (
            notes(cluster).exists()
            and notes(cluster).read_text().count("initialized") == 3
            and Occurrence.objects.using(ALIAS).filter(state=OccurrenceState.COMPLETED).exists()
        ),
        timeout=START_TIMEOUT,
        describe=lambda: f"notes of three schedulers: {words(cluster)}",
    )
    for process in processes:
        cluster.stop(process)

    done = words(cluster)
    assert done == ["start", "end"] * (len(done) // 2), "starts and ends alternate: nothing overlapped"
    states = [attempt.state for attempt in Attempt.objects.using(ALIAS).order_by("started_at")]
    assert len(states) == len(done) // 2, "every call is an attempt, and every attempt a call"
    assert states.count(AttemptState.FAILED) == FAILURES
    assert AttemptState.LOST not in states
