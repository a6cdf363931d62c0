"""The supervisor makes one pass at a time, with the test's clock and real processes."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from punctual.conf import Settings
from punctual.execution.ending import hook_calls
from punctual.execution.ending.attempt_report import report_of_row
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report
from punctual.execution.models import HookCall
from punctual.execution.supervision.board import Board, Slot, StopCause
from punctual.execution.supervision.prefetch import Messages
from punctual.execution.supervision.supervisor import LEDGER_INTERVAL, Supervised, Supervisor, exit_status
from punctual.jobs.models import Job
from punctual.occurrences import transitions
from punctual.occurrences.models import Attempt, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from tests.execution.conftest import NOW
from tests.harness import Harness
from tests.occurrences.factories import a_job, a_run, a_task, an_occurrence, saved, start_occurrence

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("queue")]

LIMITS = Settings(lease=timedelta(seconds=30))


class Setting:
    """A worker with one child process that runs one function."""

    def __init__(self, job: Job, pid: int) -> None:
        self.board, self.pid = Board(), pid
        self.supervisor = Supervisor(self.board, LIMITS)
        self.slot = Slot(self.board._memory, 3)
        occurrence, (self.run,) = start_occurrence(job, NOW, saved(a_task(job)))
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

    def note_begun(self, run: TaskRun, *, succeeded: bool = False) -> None:
        """Another run of the same bundle, whose attempt is not yet a row."""
        assert self.run.claim_token is not None
        self.slot._note_begun(self.run.claim_token.bytes, run.id.bytes)
        if succeeded:
            self.slot.succeeded()

    def after(self, seconds: float) -> Supervised:
        def clock() -> datetime:
            return NOW + timedelta(seconds=seconds)

        return self.supervisor.run_once(at=self.begun + seconds, clock=clock)

    def notice(self) -> StopCause:
        return self.slot.notice

    def interruption(self) -> StopCause:
        return self.slot.interruption

    def row(self) -> TaskRun:
        return TaskRun.objects.get(id=self.run.id)

    def attempt(self) -> Attempt:
        return Attempt.objects.get(run=self.run)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ignores the interrupt signal; tests/cluster covers functions that handle it."""
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


def wait_until_dead(pid: int) -> None:
    """Wait for the end of a process without collecting it."""
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
def test_a_step_that_fails_does_not_keep_leases_from_being_renewed(
    worker: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    def unreadable() -> Messages:
        raise ValueError("a message that cannot be read")

    worker.supervisor.prefetch.read = unreadable
    worker.slot._put(192, b'{"text": "\\u0000"}')  # progress that the database refuses
    assert worker.after(10.5) == Supervised(renewed=1)
    assert worker.row().lease_until == NOW + timedelta(seconds=40.5)
    assert "supervisor.failed step=pass on" in caplog.text


@pytest.mark.req("TSK-2")
def test_a_short_task_costs_no_statement(
    worker: Setting, django_assert_num_queries: Callable[[int], object]
) -> None:
    with django_assert_num_queries(0):  # type: ignore[attr-defined]
        worker.after(LEDGER_INTERVAL - 0.1)
        worker.slot.end()
        worker.after(20)


@pytest.mark.req("EXE-10")
def test_a_canceled_run_is_notified_within_a_second_then_interrupted_then_killed(worker: Setting) -> None:
    worker.after(1)
    assert worker.notice() is StopCause.NONE
    transitions.cancel([worker.run.id], reason="operator", now=NOW)
    assert worker.after(1.5).notified == 1
    assert worker.notice() is StopCause.CANCELED
    assert worker.interruption() is StopCause.NONE
    assert worker.after(11.5).interrupted == 1
    assert worker.interruption() is StopCause.CANCELED
    assert worker.after(16.5).killed == 1
    wait_until_dead(worker.pid)
    assert worker.after(17).ended == 0, "it is recorded already"
    assert worker.row().state == RunState.CANCELED
    assert list(worker.board.attempts()) == []


@pytest.mark.req("EXE-5")
def test_a_stuck_function_is_killed_and_recorded_as_timed_out_once_its_process_is_gone(
    worker: Setting,
) -> None:
    assert worker.after(59.9).interrupted == 0
    assert worker.after(60).interrupted == 1
    assert worker.interruption() is StopCause.TIMEOUT
    assert worker.after(64.9).killed == 0
    assert worker.after(65).killed == 1
    wait_until_dead(worker.pid)
    assert worker.after(65.1).ended == 1
    attempt = worker.attempt()
    assert (attempt.state, attempt.error_type) == ("timeout", "TaskTimeout")
    assert attempt.error == "still running after 60 s; its process was ended by SIGKILL"
    assert worker.row().state == RunState.RETRY


@pytest.mark.req("TSK-5")
def test_a_process_that_dies_is_noticed_at_once_and_counts_as_an_attempt(
    worker: Setting, child: subprocess.Popen[bytes]
) -> None:
    worker.slot.log(b"last line")
    os.kill(child.pid, signal.SIGSEGV)
    wait_until_dead(child.pid)
    assert worker.after(0.1).ended == 1
    attempt = worker.attempt()
    assert (attempt.state, attempt.error_type) == ("lost", "WorkerLost")
    assert attempt.error == "its process was ended by SIGSEGV"
    assert attempt.log == "last line"
    assert worker.row().state == RunState.RETRY
    assert worker.after(0.2) == Supervised(), "it is reported once"


def test_a_result_that_was_written_just_before_its_process_died_stands(
    worker: Setting, child: subprocess.Popen[bytes]
) -> None:
    assert worker.run.claim_token is not None
    report([report_of_row(worker.row(), worker.run.claim_token, Result(Ending.SUCCESS))], now=NOW)
    child.kill()
    wait_until_dead(child.pid)
    assert worker.after(0.1).ended == 0
    assert worker.row().state == RunState.SUCCESS


@pytest.mark.req("EXE-9")
def test_a_stopping_worker_notifies_its_functions_and_hands_back_runs_that_do_not_end(
    worker: Setting, child: subprocess.Popen[bytes], queue: Harness
) -> None:
    worker.supervisor.stopping = True
    assert worker.after(1).notified == 1
    assert worker.notice() is StopCause.STOPPING
    assert worker.after(31).killed == 1
    wait_until_dead(child.pid)
    assert worker.after(31.1).ended == 1
    row = worker.row()
    assert (row.state, row.attempts_made, row.snoozes) == ("scheduled", 1, 1), "it costs no retry"
    assert worker.attempt().state == "released"
    assert queue.take() is not None, "the run is sent again at once"


@pytest.mark.req("TSK-3")
def test_other_runs_of_a_dead_process_are_handed_back_or_reported_as_its_slot_says(
    worker: Setting, child: subprocess.Popen[bytes], job: Job, queue: Harness
) -> None:
    occurrence = worker.run.occurrence
    held = {"claim_token": worker.run.claim_token, "lease_until": NOW + timedelta(seconds=30)}
    unbegun, begun, succeeded = (
        saved(a_run(occurrence, saved(a_task(job, name, position=place)), RunState.CLAIMED, **held))
        for place, name in ((1, "second"), (2, "third"), (4, "fifth"))
    )
    done = saved(a_run(occurrence, saved(a_task(job, "fourth", position=3)), RunState.RUNNING, **held))
    worker.note_begun(begun)
    worker.note_begun(succeeded, succeeded=True)
    child.kill()
    wait_until_dead(child.pid)
    assert worker.after(0.1).ended == 4
    states = dict(TaskRun.objects.values_list("id", "state"))
    assert states == {
        worker.run.id: "retry",
        unbegun.id: "scheduled",
        begun.id: "retry",
        done.id: "retry",
        succeeded.id: "success",
    }
    (attempt,) = begun.attempts.all()
    assert (attempt.state, attempt.number, unbegun.attempts.count()) == ("lost", 0, 0)
    message = queue.take()
    assert message is not None
    assert [UUID(id_) for id_ in message[1]] == [unbegun.id]


@pytest.mark.req("TSK-9")
def test_lost_attempts_are_recorded_when_the_database_is_back(
    worker: Setting, child: subprocess.Popen[bytes]
) -> None:
    child.kill()
    wait_until_dead(child.pid)

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
def test_progress_of_a_run_claimed_by_another_worker_changes_nothing(worker: Setting) -> None:
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
    assert worker.after(66) == Supervised(), "it is recorded once"


def test_the_exit_status_is_read_without_collecting_the_process() -> None:
    process = subprocess.Popen(["sh", "-c", "exit 3"])
    wait_until_dead(process.pid)
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
def test_a_message_that_waits_for_a_free_process_is_passed_on_once(worker: Setting, queue: Harness) -> None:
    """The worker has prefetched its message, and all its processes are busy."""
    waiting = a_sent_run()
    messages: Messages = {"message": (waiting.id,)}
    worker.supervisor.prefetch.read = lambda: messages
    assert [worker.after(seconds).passed_on for seconds in (1, 1.4, 1.5, 1.6, 9)] == [0, 0, 1, 0, 0]
    message = queue.take()
    assert message is not None
    assert [UUID(id_) for id_ in message[1]] == [waiting.id]
    assert queue.take() is None
    messages.clear()
    worker.after(10)
    assert (worker.supervisor.prefetch.since, worker.supervisor.prefetch.passed_on) == ({}, set())


def test_a_run_that_has_begun_meanwhile_is_not_passed_on(worker: Setting, queue: Harness) -> None:
    worker.supervisor.prefetch.read = lambda: {"message": (worker.run.id,)}
    assert [worker.after(seconds).passed_on for seconds in (1, 2)] == [0, 0]
    assert queue.take() is None


@pytest.mark.req("EXE-9")
def test_a_stopping_worker_passes_prefetched_runs_on_to_others(worker: Setting, queue: Harness) -> None:
    waiting = a_sent_run()
    worker.supervisor.prefetch.read = lambda: {"message": (waiting.id,)}
    worker.after(0.1)
    worker.supervisor.stopping = True
    assert [worker.after(seconds).passed_on for seconds in (0.2, 0.3, 1.6)] == [1, 0, 0]
    assert queue.take() is not None, "a worker that has exited since took this message with its last poll"
    assert [worker.after(seconds).passed_on for seconds in (1.7, 1.8, 9)] == [1, 0, 0]
    message = queue.take()
    assert message is not None
    assert [UUID(id_) for id_ in message[1]] == [waiting.id]


# -- hooks ----------------------------------------------------------------------------------------------


class CallingHook:
    """A worker with one child process that calls a hook, under a limit of a minute."""

    def __init__(self, job: Job, pid: int) -> None:
        self.pid, self.board = pid, Board()
        self.supervisor = Supervisor(self.board, LIMITS)
        columns = {"config": {"on_complete": ["a.hook"]}, "report": {}}
        self.occurrence = saved(an_occurrence(job, NOW, OccurrenceState.COMPLETED, **columns))
        hook_calls.register([self.occurrence], now=NOW)
        token = hook_calls.claim(self.call, hung=False, worker="w/1", now=NOW, settings=LIMITS)
        assert token is not None
        self.board[3].begin(
            run_id=self.call.id,
            occurrence_id=self.occurrence.id,
            token=token,
            limit=60,
            pid=pid,
            hook=True,
        )
        (facts,) = self.board.attempts()
        self.begun = facts.since

    @property
    def call(self) -> HookCall:
        return HookCall.objects.get()

    def after(self, seconds: float) -> Supervised:
        now = NOW + timedelta(seconds=seconds)
        return self.supervisor.run_once(at=self.begun + seconds, clock=lambda: now)


@pytest.mark.req("JOB-9")
def test_a_hook_that_never_returns_is_interrupted_killed_and_requested_again(
    job: Job, child: subprocess.Popen[bytes], queue: Harness
) -> None:
    worker = CallingHook(job, child.pid)
    assert worker.after(59) == Supervised(), "no lease to renew, no cancellation to look for"
    assert worker.after(60).interrupted == 1
    assert worker.after(65).killed == 1
    assert worker.call.slot is not None, "nothing is recorded before the process is gone"
    wait_until_dead(worker.pid)
    worker.after(65.1)
    call = worker.call
    assert (call.tries, call.slot, call.finished_at) == (1, None, None)
    assert call.error.startswith("still running after 60 s; its process was ended by SIGKILL")
    assert call.hung_at == NOW + timedelta(seconds=65.1)
    assert queue.take() == ("punctual.settle", str(worker.occurrence.id))
    assert list(worker.board.attempts()) == []


@pytest.mark.req("JOB-9")
def test_a_hook_whose_process_dies_is_given_up_after_its_last_try(
    job: Job, child: subprocess.Popen[bytes], queue: Harness
) -> None:
    worker = CallingHook(job, child.pid)
    HookCall.objects.update(tries=hook_calls.MAX_TRIES)
    child.kill()
    wait_until_dead(worker.pid)
    worker.after(1)
    call = worker.call
    assert (call.failed, call.finished_at) == (True, NOW + timedelta(seconds=1))
    assert call.error == "its process was ended by SIGKILL"
    assert queue.take() == ("punctual.settle", str(worker.occurrence.id)), "to finalize the occurrence"


@pytest.mark.req("JOB-9", "EXE-9")
def test_a_hook_that_a_stopping_worker_ends_has_not_been_tried(
    job: Job, child: subprocess.Popen[bytes], queue: Harness
) -> None:
    worker = CallingHook(job, child.pid)
    worker.supervisor.stopping = True
    assert worker.after(1).notified == 1
    assert worker.after(40).killed == 1
    wait_until_dead(worker.pid)
    worker.after(41)
    assert (worker.call.tries, worker.call.slot, worker.call.finished_at) == (0, None, None)
    assert queue.take() == ("punctual.settle", str(worker.occurrence.id))
