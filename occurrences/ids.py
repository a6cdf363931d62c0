"""Deterministic ids of occurrences, runs and attempts: two processes that create one row get one id (OCC-1).

Each as a UUID and as its text. In a batch of a thousand, ids come from the database as text and go back as
text: building a UUID costs 2 µs and formatting it 1 µs, and a tick would do both ten times for an occurrence.
"""

from datetime import UTC, datetime, timedelta
from hashlib import sha1
from uuid import NAMESPACE_DNS, NAMESPACE_OID, NAMESPACE_URL, UUID, uuid5

from punctual.jobs.ids import format_id

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_key(instant: datetime) -> str:
    """Unix seconds, with `.micros` for an instant between two seconds."""
    micros = (instant - EPOCH) // timedelta(microseconds=1)
    seconds, rest = divmod(micros, 1_000_000)
    return f"{seconds}.{rest:06d}" if rest else str(seconds)


def occurrence_id(job: UUID | str, scheduled_for: datetime) -> UUID:
    owner = job if isinstance(job, str) else format_id("job", job)
    return uuid5(NAMESPACE_DNS, f"{owner}:{instant_key(scheduled_for)}")


def repeat_id(occurrence: UUID, number: int) -> UUID:
    """The id of the n-th repetition of an occurrence: requesting it twice creates it once."""
    return uuid5(NAMESPACE_DNS, f"{format_id('occ', occurrence)}:repeat:{number}")


def run_id(occurrence: UUID, task: UUID | str) -> UUID:
    step = task if isinstance(task, str) else format_id("task", task)
    return uuid5(NAMESPACE_URL, f"{format_id('occ', occurrence)}:{step}")


def attempt_id(run: UUID, number: int) -> UUID:
    return uuid5(NAMESPACE_OID, f"{format_id('run', run)}:{number}")


def occurrence_text(job: str, scheduled_for: datetime) -> str:
    return _uuid5(NAMESPACE_DNS.bytes, f"job_{job}:{instant_key(scheduled_for)}")


def run_text(occurrence: str, task: str) -> str:
    return _uuid5(NAMESPACE_URL.bytes, f"occ_{occurrence}:task_{task}")


def attempt_text(run: str, number: int) -> str:
    return _uuid5(NAMESPACE_OID.bytes, f"run_{run}:{number}")


def _uuid5(namespace: bytes, name: str) -> str:
    """`str(uuid5(namespace, name))` without building the UUID."""
    digest = sha1(namespace + name.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"
