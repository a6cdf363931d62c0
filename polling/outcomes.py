"""Record how a callback ended, in one transaction, if this process still holds the claim (POL-4).

A result with an outdated token changes nothing: the lease has expired and another process claimed the
run, or an operator ended it.
"""

import traceback
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F

from punctual.jobs.ids import attempt_id
from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import RunEnd
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import AttemptState, OccurrenceState, Reason, RunState
from punctual.polling.claims import Claim
from punctual.polling.models import TaskState
from punctual.polling.runs import abandon_retry, close_occurrence

MAX_ERROR_LENGTH = 2_000
MAX_TRACEBACK_LENGTH = 20_000
NO_TOKEN = UUID(int=0)  # no run has it


@dataclass(frozen=True)
class Failure:
    error_type: str
    error: str
    traceback: str


NO_FAILURE = Failure("", "", "")


def describe_failure(error: BaseException) -> Failure:
    return Failure(
        error_type=type(error).__qualname__[:200],
        error=_text(error)[:MAX_ERROR_LENGTH],
        traceback=_storable("".join(traceback.format_exception(error)))[-MAX_TRACEBACK_LENGTH:],
    )


def _text(error: BaseException) -> str:
    try:
        return _storable(str(error))
    except Exception:  # noqa: BLE001 - `__str__` of an exception is user code
        return f"<unprintable {type(error).__qualname__}>"


def _storable(text: str) -> str:
    """Escape NUL and lone surrogates, which databases refuse."""
    return text.replace("\0", "\\x00").encode(errors="backslashreplace").decode()


def record(claim: Claim, failure: Failure | None, *, now: datetime) -> bool:
    """Record the outcome; False if the claim was lost and nothing was written."""
    with transaction.atomic():
        # Lock order of every writer: task state, occurrence, run.
        locked = TaskState.objects.select_for_update(of=("self",), no_key=True)
        state = locked.select_related("job").get(pk=claim.job_id)
        Occurrence.objects.select_for_update(no_key=True).get(pk=claim.occurrence_id)
        run = TaskRun.objects.select_related("task", "occurrence__job").get(pk=claim.run_id)
        if run.state != RunState.RUNNING or run.claim_token != claim.token:
            return False
        if failure is None:
            _succeed(run, now)
        else:
            _fail(run, failure, state, now)
    return True


def _succeed(run: TaskRun, now: datetime) -> None:
    _end(run, RunState.SUCCESS, now=now)
    close_occurrence(run, OccurrenceState.COMPLETED, now=now)
    _update_state(run, run_id=None, last_success_at=now, pending_retry_until=None)


def _fail(run: TaskRun, failure: Failure, state: TaskState, now: datetime) -> None:
    until = now + state.retry_delay
    # Beats and workers never touch a run in `failed`: its scheduler retries it, not before `until`.
    _end(run, RunState.FAILED, now=now, until=until, failure=failure)
    if state.job.removed:
        abandon_retry(run, reason=Reason.NOT_REGISTERED, now=now)
        _update_state(run, run_id=None, pending_retry_until=None)
    else:
        _update_state(run, pending_retry_until=until)


def _end(
    run: TaskRun,
    state: RunState,
    *,
    now: datetime,
    until: datetime | None = None,
    failure: Failure = NO_FAILURE,
) -> None:
    number = run.attempts_made - 1
    run.error = f"{failure.error_type}: {failure.error}" if failure.error_type else ""
    end = RunEnd(
        run=run.id,
        occurrence=run.occurrence_id,
        token=run.claim_token or NO_TOKEN,
        state=state,
        available_at=until,
        final=state == RunState.SUCCESS,
        snoozed=0,
        reason=None,
        error=run.error,
        fingerprint=None,
        attempt=attempt_id(run.id, number),
        number=number,
        started_at=run.started_at or now,
        recorded=True,
        attempt_state=AttemptState(state.value),
        error_type=failure.error_type,
        message=failure.error,
        traceback=failure.traceback,
    )
    transitions.end([end], now=now)


def _update_state(run: TaskRun, **columns: object) -> None:
    rows = TaskState.objects.filter(job=run.occurrence.job_id)
    rows.update(revision=F("revision") + 1, **columns)
