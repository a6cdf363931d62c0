"""Deterministic ids of occurrences, runs and attempts: two processes that create one row get one id (OCC-1).

Ids of other rows may be given as UUIDs, as their texts or with their prefixes (`job_…`).
"""

from datetime import UTC, datetime, timedelta
from hashlib import sha1
from uuid import NAMESPACE_DNS, NAMESPACE_OID, NAMESPACE_URL, UUID

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DNS, URL, OID = NAMESPACE_DNS.bytes, NAMESPACE_URL.bytes, NAMESPACE_OID.bytes


def instant_key(instant: datetime) -> str:
    """Unix seconds, with `.micros` for an instant between two seconds."""
    micros = (instant - EPOCH) // timedelta(microseconds=1)
    seconds, rest = divmod(micros, 1_000_000)
    return f"{seconds}.{rest:06d}" if rest else str(seconds)


def occurrence_id(job: UUID | str, scheduled_for: datetime) -> UUID:
    return _uuid5(DNS, f"{_display_id('job_', job)}:{instant_key(scheduled_for)}")


def repeat_id(occurrence: UUID, number: int) -> UUID:
    """The id of the n-th repetition of an occurrence: requesting it twice creates it once."""
    return _uuid5(DNS, f"{_display_id('occ_', occurrence)}:repeat:{number}")


def run_id(occurrence: UUID | str, task: UUID | str) -> UUID:
    return _uuid5(URL, f"{_display_id('occ_', occurrence)}:{_display_id('task_', task)}")


def attempt_id(run: UUID | str, number: int) -> UUID:
    return _uuid5(OID, f"{_display_id('run_', run)}:{number}")


def _display_id(prefix: str, id_: UUID | str) -> str:
    text = str(id_)
    return text if text.startswith(prefix) else prefix + text


def _uuid5(namespace: bytes, name: str) -> UUID:
    """`uuid.uuid5` in half the time: a tick computes three thousand ids."""
    return UUID(bytes=sha1(namespace + name.encode(), usedforsecurity=False).digest()[:16], version=5)
