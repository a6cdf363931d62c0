"""Names → deterministic ids: the same name gives the same id on every machine (JOB-1)."""

from uuid import NAMESPACE_DNS, NAMESPACE_URL, UUID, uuid5


def job_id(name: str) -> UUID:
    return uuid5(NAMESPACE_DNS, name)


def task_id(job: UUID, name: str) -> UUID:
    return uuid5(NAMESPACE_URL, f"{shown('job', job)}:{name}")


def shown(kind: str, id_: UUID) -> str:
    """The id as people see it: `job_…`, `occ_…`."""
    return f"{kind}_{id_}"


def parsed(kind: str, text: str) -> UUID:
    """The id people typed, with or without its prefix; ValueError names what is wrong."""
    bare = text.removeprefix(f"{kind}_")
    try:
        return UUID(bare)
    except ValueError:
        raise ValueError(f"{text!r} is not an id of the form {kind}_<uuid>") from None
