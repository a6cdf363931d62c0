"""How a callback ended → rows, in one transaction, if the run is still this process's (POL-4).

A result whose token is no longer the run's changes nothing: the lease ran out and somebody else has
the run, or an operator ended it; what happened since stands.
"""

import traceback
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F

from occurrences import transitions
from occurrences.models import Occurrence, TaskRun
from occurrences.states import AttemptState, OccurrenceState, RunState
from polling.claims import Claim
from polling.ledger import close, give_up
from polling.models import TaskState

LONGEST_ERROR = 2_000
LONGEST_TRACEBACK = 20_000
UNREGISTERED = "no longer registered"


@dataclass(frozen=True)
class Failure:
    error_type: str
    error: str
    traceback: str


def failure(error: BaseException) -> Failure:
    return Failure(
        error_type=type(error).__qualname__[:200],
        error=_text(error)[:LONGEST_ERROR],
        traceback=_storable("".join(traceback.format_exception(error)))[-LONGEST_TRACEBACK:],
    )


def _text(error: BaseException) -> str:
    try:
        return _storable(str(error))
    except Exception:  # noqa: BLE001 - even an error's own text is user code
        return f"<unprintable {type(error).__qualname__}>"


def _storable(text: str) -> str:
    """A database refuses NUL and lone surrogates; a result must not be lost for their sake."""
    return text.replace("\0", "\\x00").encode(errors="backslashreplace").decode()


def record(claim: Claim, failed: Failure | None, *, now: datetime) -> bool:
    """False: the claim was lost, nothing was written."""
    with transaction.atomic():
        # The order of every writer: the task's row, the occurrence, its run.
        locked = TaskState.objects.select_for_update(of=("self",), no_key=True)
        state = locked.select_related("job").get(pk=claim.job_id)
        Occurrence.objects.select_for_update(no_key=True).get(pk=claim.occurrence_id)
        run = TaskRun.objects.select_related("task", "occurrence__job").get(pk=claim.run_id)
        if run.state != RunState.RUNNING or run.claim_token != claim.token:
            return False
        if failed is None:
            _succeed(run, now)
        else:
            _fail(run, failed, state, now)
    return True


def _succeed(run: TaskRun, now: datetime) -> None:
    transitions.end_attempts([run.id], AttemptState.SUCCESS, now=now)
    transitions.succeed([run.id], now=now)
    run.error = ""
    close(run, OccurrenceState.COMPLETED, now=now)
    _remember(run, run_id=None, last_success_at=now, pending_retry_until=None)


def _fail(run: TaskRun, failed: Failure, state: TaskState, now: datetime) -> None:
    transitions.end_attempts([run.id], AttemptState.FAILED, now=now, errors={run.id: vars(failed)})
    run.error = f"{failed.error_type}: {failed.error}"
    until = now + state.retry_delay
    transitions.fail({run.id: until}, errors={run.id: run.error})
    if state.job.removed:
        give_up(run, reason=UNREGISTERED, now=now)
        _remember(run, run_id=None, pending_retry_until=None)
    else:
        _remember(run, pending_retry_until=until)


def _remember(run: TaskRun, **columns: object) -> None:
    rows = TaskState.objects.filter(job=run.occurrence.job_id)
    rows.update(revision=F("revision") + 1, **columns)
