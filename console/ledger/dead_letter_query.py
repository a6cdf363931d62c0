"""Read the filter of dead letters from a query string, and write it back."""

from datetime import UTC, datetime
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import QueryDict

from punctual.jobs.config.bounded_duration import duration
from punctual.recovery.dead_letters import DeadLetterFilter


def filter_in(query: QueryDict, now: datetime) -> DeadLetterFilter:
    """Parse the filter. A value that cannot be read is refused: ignoring it would select all dead letters."""
    if any(
        "\0" in text for text in query.values()
    ):  # a posted filter; the middleware checks the query string
        raise BadRequest("dead letters: a value contains a NUL character")
    try:
        ids = tuple(UUID(text) for text in query.get("runs", "").split(",")) if "runs" in query else ()
        older = duration(query["older"]) if query.get("older") else None
        before = _instant_in(query.get("before", ""))
    except ValueError as error:
        raise BadRequest(f"dead letters: {error}") from None
    return DeadLetterFilter(
        ids=ids,
        job=query.get("job", ""),
        task=query.get("task", ""),
        fingerprint=query.get("fingerprint", ""),
        search=query.get("q", "").strip(),
        before=now - older if older else before,
    )


def _instant_in(text: str) -> datetime | None:
    instant = datetime.fromisoformat(text) if text else None
    return instant.replace(tzinfo=UTC) if instant and instant.tzinfo is None else instant


def query_of(which: DeadLetterFilter) -> dict[str, str]:
    texts = {
        "runs": ",".join(map(str, which.ids)),
        "job": which.job,
        "task": which.task,
        "fingerprint": which.fingerprint,
        "q": which.search,
        "before": which.before.isoformat() if which.before else "",
    }
    return {key: value for key, value in texts.items() if value}
