"""Job, instant, task, number → the deterministic ids that make creation a race with one winner (OCC-1).

Each as a UUID and as the text of one: where a batch of a thousand passes through, ids come from the database
as text and go back as text, and are never anything else. A UUID costs 2 µs to make of a text and 1 µs to
write as one; a tick would do both ten times for each occurrence.
"""

from datetime import UTC, datetime, timedelta
from hashlib import sha1
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


def occurrence_text(job: str, scheduled_for: datetime) -> str:
    return _uuid5(NAMESPACE_DNS.bytes, f"job_{job}:{instant_key(scheduled_for)}")


def run_text(occurrence: str, task: str) -> str:
    return _uuid5(NAMESPACE_URL.bytes, f"occ_{occurrence}:task_{task}")


def attempt_text(run: str, number: int) -> str:
    return _uuid5(NAMESPACE_OID.bytes, f"run_{run}:{number}")


def _uuid5(namespace: bytes, name: str) -> str:
    """`str(uuid5(namespace, name))`, without the UUID in between."""
    digest = sha1(namespace + name.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"
