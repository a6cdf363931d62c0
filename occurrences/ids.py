"""Job, instant, task, number → the deterministic ids that make creation a race with one winner (OCC-1)."""

from datetime import UTC, datetime, timedelta
from uuid import NAMESPACE_DNS, NAMESPACE_OID, NAMESPACE_URL, UUID, uuid5

from jobs.ids import shown

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_key(instant: datetime) -> str:
    """Unix seconds, plus `.micros` for an instant between two seconds."""
    micros = (instant - EPOCH) // timedelta(microseconds=1)
    seconds, rest = divmod(micros, 1_000_000)
    return f"{seconds}.{rest:06d}" if rest else str(seconds)


def occurrence_id(job: UUID | str, scheduled_for: datetime) -> UUID:
    owner = job if isinstance(job, str) else shown("job", job)
    return uuid5(NAMESPACE_DNS, f"{owner}:{instant_key(scheduled_for)}")


def repeat_id(occurrence: UUID, number: int) -> UUID:
    """The id of the n-th repetition of an occurrence: asking for it twice makes it once."""
    return uuid5(NAMESPACE_DNS, f"{shown('occ', occurrence)}:repeat:{number}")


def run_id(occurrence: UUID, task: UUID | str) -> UUID:
    step = task if isinstance(task, str) else shown("task", task)
    return uuid5(NAMESPACE_URL, f"{shown('occ', occurrence)}:{step}")


def attempt_id(run: UUID, number: int) -> UUID:
    return uuid5(NAMESPACE_OID, f"{shown('run', run)}:{number}")
