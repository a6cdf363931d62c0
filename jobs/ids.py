"""Compute ids: two processes that create one row get one id, on every machine (JOB-1, OCC-1).

The ids of other rows that an id is made of may be UUIDs, their texts, or texts with a prefix (`job_…`).
"""

from datetime import UTC, datetime, timedelta
from hashlib import sha1
from uuid import NAMESPACE_DNS, NAMESPACE_OID, NAMESPACE_URL, UUID

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DNS, URL, OID = NAMESPACE_DNS.bytes, NAMESPACE_URL.bytes, NAMESPACE_OID.bytes


def job_id(name: str) -> UUID:
    return _uuid5(DNS, name)


def task_id(job: UUID | str, name: str) -> UUID:
    return _uuid5(URL, f"{format_id('job', job)}:{name}")


def occurrence_id(job: UUID | str, scheduled_for: datetime) -> UUID:
    return _uuid5(DNS, f"{format_id('job', job)}:{instant_key(scheduled_for)}")


def repeat_id(occurrence: UUID, number: int) -> UUID:
    """The id of the n-th repetition of an occurrence: requesting it twice creates it once."""
    return _uuid5(DNS, f"{format_id('occ', occurrence)}:repeat:{number}")


def run_id(occurrence: UUID | str, task: UUID | str) -> UUID:
    return _uuid5(URL, f"{format_id('occ', occurrence)}:{format_id('task', task)}")


def attempt_id(run: UUID | str, number: int) -> UUID:
    return _uuid5(OID, f"{format_id('run', run)}:{number}")


def instant_key(instant: datetime) -> str:
    """Unix seconds, with `.micros` for an instant between two seconds."""
    micros = (instant - EPOCH) // timedelta(microseconds=1)
    seconds, rest = divmod(micros, 1_000_000)
    return f"{seconds}.{rest:06d}" if rest else str(seconds)


def format_id(kind: str, id_: UUID | str) -> str:
    """Write an id with its prefix, which a text may have already: `job_…`, `occ_…`."""
    text, prefix = str(id_), f"{kind}_"
    return text if text.startswith(prefix) else prefix + text


def parse_id(kind: str, text: str) -> UUID:
    """Read an id with or without its prefix; ValueError names the form it must have."""
    bare = text.removeprefix(f"{kind}_")
    try:
        return UUID(bare)
    except ValueError:
        raise ValueError(f"{text!r} is not an id of the form {kind}_<uuid>") from None


def _uuid5(namespace: bytes, name: str) -> UUID:
    """`uuid.uuid5` in half the time: a tick computes three thousand ids."""
    return UUID(bytes=sha1(namespace + name.encode(), usedforsecurity=False).digest()[:16], version=5)
