"""One pass at a time, with a clock that the test sets and processes that are real."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from execution.limits import Limits
from execution.prefetched import Waiting
from execution.slots import Board, Slot, Why
from execution.supervisor import LOOK_INTERVAL, Supervised, Supervisor, exit_status
from jobs.models import Job
from occurrences import transitions
from occurrences.models import Attempt, TaskRun
from occurrences.states import OccurrenceState, RunState
from tests.execution.conftest import NOW
from tests.harness import Harness
from tests.occurrences.ledger import a_job, a_run, a_task, an_occurrence, saved, started

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("queue")]

LIMITS = Limits(lease=timedelta(seconds=30))


class Setting:
    """A worker with one child process that runs one function."""

    def __init__(self, job: Job, pid: int) -> None:
        self.board, self.pid = Board(), pid
        self.supervisor = Supervisor(self.board, LIMITS)
        self.slot = Slot(self.board._memory, 3)
        occurrence, (self.run,) = started(job, NOW, saved(a_task(job)))
        assert self.run.claim_token is not None
        self.slot.begin(
            run_id=self.run.id,
            occurrence_id=occurrence.id,
            token=self.run.claim_token,
            limit=60,
            pid=pid,
        )
        (facts,) = self.board.attempts()
        self.begun = facts.since

    def note_begun(self, run: TaskRun) -> None:
        """Another run of the same bundle, whose attempt is not yet a row."""
        assert self.run.claim_token is not None
        self.slot._note_begun(self.run.claim_token.bytes, run.id.bytes)

    def after(self, seconds: float) -> Supervised:
        def clock() -> datetime:
            return NOW + timedelta(seconds=seconds)

        return self.supervisor.run_once(at=self.begun + seconds, clock=clock)

    def told(self) -> Why:
        return self.slot.told

    def interruption(self) -> Why:
        return self.slot.interruption

    def row(self) -> TaskRun:
        return TaskRun.objects.get(id=self.run.id)

    def attempt(self) -> Attempt:
        return Attempt.objects.get(run=self.run)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is deaf to the interruption; one that hears it handles it as tests/cluster shows."""
    process = subprocess.Popen(["sh", "-c", "trap '' USR2; echo; sleep 600"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def worker(job: Job, child: subprocess.Popen[bytes]) -> Setting:
    return Setting(job, child.pid)


def dead(pid: int) -> None:
    """Wait for its end without collecting it."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.req("TSK-2")
def test_a_lease_is_renewed_when_a_third_of_it_has_passed_and_not_before(worker: Setting) -> None:
    assert worker.after(9.9) == Supervised()
    assert worker.row().heartbeat_at == NOW
    assert worker.after(10.5) == Supervised(renewed=1)
    assert worker.row().lease_until == NOW + timedelta(seconds=40.5)
    assert worker.after(11.5) == Supervised(), "one renewal is enough"
    assert worker.after(20.6) == Supervised(renewed=1)


@pytest.mark.req("TSK-2")
def test_a_short_task_costs_no_statement(
    worker: Setting, django_assert_num_queries: Callable[[int], object]
) -> None:
    with django_assert_num_queries(0):  # type: ignore[attr-defined]
        worker.after(LOOK_INTERVAL - 0.1)
        worker.slot.end()
        worker.after(20)


@pytest.mark.req("EXE-10")
def test_a_canceled_run_is_told_within_a_second_then_interrupted_then_killed(worker: Setting) -> None:
    worker.after(1)
    assert worker.told() is Why.NONE
    transitions.cancel([worker.run.id], reason="operator", now=NOW)
    assert worker.after(1.5).told == 1
    assert worker.told() is Why.CANCELED
    assert worker.interruption() is Why.NONE
    assert worker.after(11.5).interrupted == 1
    assert worker.interruption() is Why.CANCELED
    assert worker.after(16.5).killed == 1
    dead(worker.pid)
    assert worker.after(17).ended == 0, "the ledger knows already"
    assert worker.row().state == RunState.CANCELED
    assert list(worker.board.attempts()) == []


@pytest.mark.req("EXE-5")
def test_a_stuck_function_is_killed_and_recorded_as_timed_out_once_its_process_is_gone(
    worker: Setting,
) -> None:
    assert worker.after(59.9).interrupted == 0
    assert worker.after(60).interrupted == 1
    assert worker.interruption() is Why.TIMEOUT
    assert worker.after(64.9).killed == 0
    assert worker.after(65).killed == 1
    dead(worker.pid)
    assert worker.after(65.1).ended == 1
    attempt = worker.attempt()
    assert (attempt.state, attempt.error_type) == ("timeout", "TaskTimeout")
    assert attempt.error == "still running after 60 s; its process was ended by SIGKILL"
    assert worker.row().state == RunState.RETRY


@pytest.mark.req("TSK-5")
def test_a_process_that_dies_is_noticed_at_once_and_counts_as_an_attempt(
    worker: Setting, child: subprocess.Popen[bytes]
) -> None:
    worker.slot.log(b"last words")
    os.kill(child.pid, signal.SIGSEGV)
    dead(child.pid)
    assert worker.after(0.1).ended == 1
    attempt = worker.attempt()
    assert (attempt.state, attempt.error_type) == ("lost", "WorkerLost")
    assert attempt.error == "its process was ended by SIGSEGV"
    assert attempt.log == "last words"
    assert worker.row().state == RunState.RETRY
    assert worker.after(0.2) == Supervised(), "and only once"


def test_a_result_that_was_written_just_before_its_process_died_stands(
    worker: Setting, child: subprocess.Popen[bytes]
) -> None:
    transitions.succeed([worker.run.id], now=NOW)
    child.kill()
    dead(child.pid)
    assert worker.after(0.1).ended == 0
    assert worker.row().state == RunState.SUCCESS


@pytest.mark.req("EXE-9")
def test_a_stopping_worker_tells_its_functions_and_hands_back_what_does_not_end(
    worker: Setting, child: subprocess.Popen[bytes], queue: Harness
) -> None:
    worker.supervisor.stopping = True
    assert worker.after(1).told == 1
    assert worker.told() is Why.STOPPING
    assert worker.after(31).killed == 1
    dead(child.pid)
    assert worker.after(31.1).ended == 1
    row = worker.row()
    assert (row.state, row.attempts_made, row.snoozes) == ("scheduled", 1, 1), "it costs no retry"
    assert worker.attempt().state == "released"
    assert queue.take() is not None, "and is sent at once"


@pytest.mark.req("TSK-3")
def test_what_a_dead_process_held_besides_goes_back_in_line(
    worker: Setting, child: subprocess.Popen[bytes], job: Job, queue: Harness
) -> None:
    occurrence = worker.run.occurrence
    held = {"claim_token": worker.run.claim_token, "lease_until": NOW + timedelta(seconds=30)}
    unbegun, begun = (
        saved(a_run(occurrence, saved(a_task(job, name, position=place)), RunState.CLAIMED, **held))
        for place, name in ((1, "second"), (2, "third"))
    )
    done = saved(a_run(occurrence, saved(a_task(job, "fourth", position=3)), RunState.RUNNING, **held))
    worker.note_begun(begun)
    child.kill()
    dead(child.pid)
    assert worker.after(0.1).ended == 3
    states = dict(TaskRun.objects.values_list("id", "state"))
    assert states == {
        worker.run.id: "retry",
        unbegun.id: "scheduled",
        begun.id: "retry",
        done.id: "retry",
    }
    (attempt,) = begun.attempts.all()
    assert (attempt.state, attempt.number, unbegun.attempts.count()) == ("lost", 0, 0)
    message = queue.take()
    assert message is not None
    assert [UUID(id_) for id_ in message[1]] == [unbegun.id]


@pytest.mark.req("TSK-9")
def test_what_is_owed_while_the_database_is_away_is_recorded_when_it_is_back(
    worker: Setting, child: subprocess.Popen[bytes]
) -> None:
    child.kill()
    dead(child.pid)

    def away() -> datetime:
        raise OperationalError("gone away")

    with pytest.raises(OperationalError):
        worker.supervisor.run_once(at=worker.begun + 1, clock=away)
    assert worker.after(2).ended == 1
    assert worker.attempt().state == "lost"


@pytest.mark.req("EXE-6")
def test_progress_is_stored_while_the_function_runs(worker: Setting) -> None:
    worker.slot.note({"rows": 12})
    worker.after(1)
    assert worker.row().progress == {"rows": 12}


@pytest.mark.req("TSK-2")
def test_progress_of_a_run_that_is_another_s_changes_nothing(worker: Setting) -> None:
    TaskRun.objects.update(claim_token=uuid4())
    worker.slot.note({"rows": 12})
    worker.after(1)
    assert worker.row().progress is None


@pytest.mark.req("EXE-5")
def test_a_thread_cannot_be_killed_but_its_run_goes_on_without_it(job: Job) -> None:
    worker = Setting(job, os.getpid())
    previous = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        assert worker.after(60).interrupted == 1
    finally:
        signal.signal(signal.SIGUSR2, previous)
    assert worker.after(65) == Supervised(ended=1)
    assert worker.attempt().state == "timeout"
    assert worker.row().state == RunState.RETRY
    assert worker.after(66) == Supervised(), "recorded once, left alone from then on"


def test_how_a_process_ended_is_told_without_collecting_it() -> None:
    process = subprocess.Popen(["sh", "-c", "exit 3"])
    dead(process.pid)
    assert exit_status(process.pid) == "its process exited with 3"
    assert exit_status(process.pid) == "its process exited with 3"
    assert process.wait() == 3
    assert exit_status(process.pid) == "its process is gone"
    assert exit_status(os.getpid()) == "its process is gone", "not a child of ours"


def a_sent_run() -> TaskRun:
    job = saved(a_job("other", NOW))
    occurrence = saved(an_occurrence(job, NOW, OccurrenceState.DISPATCHED))
    return saved(a_run(occurrence, saved(a_task(job)), dispatched_at=NOW))


@pytest.mark.req("TSK-3", "OCC-7")
def test_what_waits_for_a_free_process_is_passed_on_once(worker: Setting, queue: Harness) -> None:
    """Its message is in this worker's hands, and everybody in here is busy."""
    waiting = a_sent_run()
    messages: Waiting = {"message": (waiting.id,)}
    worker.supervisor.ahead.waiting = lambda: messages
    assert [worker.after(seconds).passed_on for seconds in (1, 1.4, 1.5, 1.6, 9)] == [0, 0, 1, 0, 0]
    message = queue.take()
    assert message is not None
    assert [UUID(id_) for id_ in message[1]] == [waiting.id]
    assert queue.take() is None
    messages.clear()
    worker.after(10)
    assert (worker.supervisor.ahead.since, worker.supervisor.ahead.passed_on) == ({}, set())


def test_what_was_begun_meanwhile_is_not_passed_on(worker: Setting, queue: Harness) -> None:
    worker.supervisor.ahead.waiting = lambda: {"message": (worker.run.id,)}
    assert [worker.after(seconds).passed_on for seconds in (1, 2)] == [0, 0]
    assert queue.take() is None


@pytest.mark.req("EXE-9")
def test_a_worker_that_stops_leaves_what_it_took_ahead_to_the_others(worker: Setting, queue: Harness) -> None:
    waiting = a_sent_run()
    worker.supervisor.ahead.waiting = lambda: {"message": (waiting.id,)}
    worker.after(0.1)
    worker.supervisor.stopping = True
    assert [worker.after(seconds).passed_on for seconds in (0.2, 0.3, 1.6)] == [1, 0, 0]
    assert queue.take() is not None, "and whoever asked last, and has left, took that too"
    assert [worker.after(seconds).passed_on for seconds in (1.7, 1.8, 9)] == [1, 0, 0]
    message = queue.take()
    assert message is not None
    assert [UUID(id_) for id_ in message[1]] == [waiting.id]
