"""Verbs about occurrences: list, show, cancel, skip, replay."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from jobs import control
from jobs.clock import database_now
from jobs.errors import DefinitionError, PunctualError
from jobs.ids import shown
from jobs.progress import Progress
from jobs.verbs import Answer, Options, Row, Verb
from occurrences.models import Occurrence, OccurrenceQuerySet
from occurrences.states import OccurrenceState
from recovery.operate import cancel_occurrences, skip_occurrences
from recovery.ranges import repeated
from recovery.replay import replay, replayable
from recovery.verbs.acting import MOST, Doing, acted, listed, listing, several, undone
from recovery.verbs.reading import asked, identifier, optional_instant


def choosing(parser: ArgumentParser) -> None:
    parser.add_argument("--job", help="only of this job")
    parser.add_argument("--state", choices=OccurrenceState.values, help="only in this state")
    parser.add_argument("--from", dest="since", metavar="INSTANT", help="scheduled for this instant or later")
    parser.add_argument("--to", dest="until", metavar="INSTANT", help="scheduled for this instant or earlier")


def chosen(options: Options) -> OccurrenceQuerySet:
    rows = Occurrence.objects.all()
    if options["job"]:
        rows = rows.filter(job=control.get(options["job"]))
    if options["state"]:
        rows = rows.filter(state=options["state"])
    if since := optional_instant("--from", options["since"]):
        rows = rows.filter(scheduled_for__gte=since)
    if until := optional_instant("--to", options["until"]):
        rows = rows.filter(scheduled_for__lte=until)
    return rows


def list_arguments(parser: ArgumentParser) -> None:
    choosing(parser)
    listing(parser)


def list_some(options: Options) -> Answer:
    rows = chosen(options).select_related("job").order_by("-scheduled_for", "-id")
    return Answer(map(brief, rows[: listed(options)]))


def brief(row: Occurrence) -> Row:
    return {
        "id": row.shown_id,
        "job": row.job.name,
        "scheduled_for": row.scheduled_for.isoformat(),
        "state": row.state,
        "cause": row.cause,
        "reason": row.reason,
        "instants": row.instants,
    }


def one(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="an occurrence's id, with or without occ_")


def show(options: Options) -> Answer:
    row = _get(identifier(options["id"], "occ"))
    runs = row.runs.select_related("task").prefetch_related("attempts").order_by("position")
    found = brief(row) | {
        "run_at": row.run_at.isoformat(),
        "spans_until": row.spans_until,
        "fired_at": row.fired_at,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "parent": shown("occ", row.parent_id) if row.parent_id else None,
        "requested_by": row.requested_by,
        "request_reason": row.request_reason,
        "covers": row.covers,
        "runs": [_run(run) for run in runs],
    }
    return Answer([found], text, single=True)


def _get(id_: UUID) -> Occurrence:
    row = Occurrence.objects.select_related("job").filter(id=id_).first()
    if row is None:
        raise PunctualError(
            f"{shown('occ', id_)}: no such occurrence; `occurrences list` shows what there is"
        )
    return row


def _run(run: Any) -> Row:
    return {
        "id": run.shown_id,
        "task": run.task.name,
        "state": run.state,
        "reason": run.reason,
        "error": run.error,
        "attempts": [
            {"number": item.number, "state": item.state, "worker": item.worker, "error": item.error}
            for item in sorted(run.attempts.all(), key=lambda item: item.number)
        ],
    }


def text(row: Row) -> str:
    lines = [f"{key}  {value}" for key, value in row.items() if key != "runs" and value not in (None, "")]
    for run in row["runs"]:
        lines.append(f"run {run['task']}  {run['state']}  {run['error']}".rstrip())
        lines += [
            f"  attempt {item['number']}  {item['state']}  {item['worker']}" for item in run["attempts"]
        ]
    return "\n".join(lines)


def some(parser: ArgumentParser) -> None:
    several(parser, "occ")
    choosing(parser)


def replay_arguments(parser: ArgumentParser) -> None:
    some(parser)
    parser.add_argument("--failed-only", action="store_true", help="only the tasks that did not succeed")
    parser.add_argument("--key", help="identifies this request: repeating it with the same key adds nothing")


def _wanted(options: Options) -> OccurrenceQuerySet:
    """By id, or by at least one filter: nobody acts on everything by leaving something out."""
    ids = [identifier(text_, "occ") for text_ in options["ids"]]
    if not ids and not any(options[name] for name in ("job", "state", "since", "until")):
        raise DefinitionError("ids", "", "expected ids, or a filter such as --job")
    rows = chosen(options)
    for id_ in ids:
        _get(id_)  # or says that there is none, before anything is done
    return rows.filter(id__in=ids) if ids else rows


def replay_some(options: Options) -> Answer:
    """What is named by id may be a replay itself; a range leaves out what repeats it."""
    which = replayable if options["ids"] else repeated
    rows = which(_wanted(options), failed_only=options["failed_only"])
    if options["dry_run"]:
        return acted(options, "replayed", count=rows.count, do=lambda _: 0)
    ids = _ids(rows.order_by("scheduled_for", "id"))
    done = replay(
        ids,
        asked=asked(options),
        now=database_now(),
        failed_only=options["failed_only"],
        key=options["key"],
        told=_told(options),
        progress=Progress(sys.stderr, len(ids), "replayed"),
    )
    closing = f"{len(done.made)} replayed, {done.refused} refused"
    return Answer(_made(done.made), closing=closing, exit_code=undone(options, len(done.made)))


def _made(ids: tuple[UUID, ...]) -> Iterator[Row]:
    for id_ in ids:
        yield {"occurrence": shown("occ", id_)}


def cancel(options: Options) -> Answer:
    return _ended(options, "canceled", _wanted(options).active(), cancel_occurrences)


def skip(options: Options) -> Answer:
    waiting = _wanted(options).filter(state__in=(OccurrenceState.PENDING, OccurrenceState.QUEUED))
    return _ended(options, "skipped", waiting, skip_occurrences)


def _ended(options: Options, done: str, rows: OccurrenceQuerySet, step: Callable[..., int]) -> Answer:
    def do(doing: Doing) -> int:
        return step(_ids(rows.order_by("id")), told=_told(options), **vars(doing))

    return acted(options, done, count=rows.count, do=do)


def _told(options: Options) -> Row | None:
    """The filter, for the audit; None when ids were named."""
    filters = {"job": "job", "state": "state", "from": "since", "to": "until"}
    given = {name: options[option] for name, option in filters.items() if options[option]}
    return None if options["ids"] else given


def _ids(rows: OccurrenceQuerySet) -> list[UUID]:
    return list(rows.values_list("id", flat=True)[:MOST])


VERBS = {
    verb.name: verb
    for verb in (
        Verb("list", "newest first, by job, state and time", list_some, list_arguments),
        Verb("show", "one occurrence with its runs and attempts", show, one),
        Verb("cancel", "end what is under way; its functions are told", cancel, some),
        Verb("skip", "do not run what is planned or waiting", skip, some),
        Verb("replay", "run again what is over, as new occurrences", replay_some, replay_arguments),
    )
}
