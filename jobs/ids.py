"""Compute ids from names: the same name gives the same id on every machine (JOB-1)."""

from uuid import NAMESPACE_DNS, NAMESPACE_URL, UUID, uuid5


def job_id(name: str) -> UUID:
    return uuid5(NAMESPACE_DNS, name)


def task_id(job: UUID, name: str) -> UUID:
    return uuid5(NAMESPACE_URL, f"{format_id('job', job)}:{name}")


def format_id(kind: str, id_: UUID) -> str:
    """Write an id with its prefix: `job_…`, `occ_…`."""
    return f"{kind}_{id_}"


def parse_id(kind: str, text: str) -> UUID:
    """Read an id with or without its prefix; ValueError names the form it must have."""
    bare = text.removeprefix(f"{kind}_")
    try:
        return UUID(bare)
    except ValueError:
        raise ValueError(f"{text!r} is not an id of the form {kind}_<uuid>") from None
