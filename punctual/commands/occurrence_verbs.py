"""`occurrences list`, `show`, `cancel`, `skip`, `replay`."""

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from punctual.commands.action_runner import (
    add_ids,
    add_limit,
    execute,
    execute_and_count,
    exit_code,
    limit_of,
    would_be,
)
from punctual.commands.arguments import parse_id, parse_optional_instant
from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.execution.models import HookCall
from punctual.jobs import control
from punctual.jobs.clock import database_now
from punctual.jobs.errors import DefinitionError, PunctualError
from punctual.jobs.ids import format_id
from punctual.occurrences.models import Occurrence
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import OccurrenceState
from punctual.operations import occurrence_actions
from punctual.operations.action import Call, OccurrenceSelection


def add_filters(parser: ArgumentParser) -> None:
    parser.add_argument("--job", help="only of this job")
    parser.add_argument("--state", choices=OccurrenceState.values, help="only in this state")
    parser.add_argument("--from", dest="since", metavar="INSTANT", help="scheduled for this instant or later")
    parser.add_argument("--to", dest="until", metavar="INSTANT", help="scheduled for this instant or earlier")


def filter_occurrences(options: Options) -> OccurrenceQuerySet:
    rows = Occurrence.objects.all()
    if options["job"]:
        rows = rows.filter(job=control.get_job(options["job"]))
    if options["state"]:
        rows = rows.filter(state=options["state"])
    if since := parse_optional_instant("--from", options["since"]):
        rows = rows.filter(scheduled_for__gte=since)
    if until := parse_optional_instant("--to", options["until"]):
        rows = rows.filter(scheduled_for__lte=until)
    return rows


def list_arguments(parser: ArgumentParser) -> None:
    add_filters(parser)
    add_limit(parser)


def list_occurrences(options: Options) -> Answer:
    rows = filter_occurrences(options).select_related("job").order_by("-scheduled_for", "-created_at", "-id")
    return Answer(map(summary_row, rows[: limit_of(options)]))


def summary_row(row: Occurrence) -> Row:
    return {
        "id": row.display_id,
        "job": row.job.name,
        "scheduled_for": row.scheduled_for.isoformat(),
        "state": row.state,
        "cause": row.cause,
        "reason": row.reason,
        "instants": row.instants,
    }


def add_id(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="an occurrence's id, with or without occ_")


def show_occurrence(options: Options) -> Answer:
    row = _get_occurrence(parse_id(options["id"], "occ"))
    runs = row.runs.select_related("task").prefetch_related("attempts").order_by("position")
    details = summary_row(row) | {
        "run_at": row.run_at.isoformat(),
        "spans_until": row.spans_until,
        "fired_at": row.fired_at,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "parent": format_id("occ", row.parent_id) if row.parent_id else None,
        "requested_by": row.requested_by,
        "request_reason": row.request_reason,
        "covers": row.covers,
        "runs": [_run_row(run) for run in runs],
        "hooks": [_hook_row(call) for call in row.hook_calls.order_by("-event", "position")],
    }
    return Answer([details], occurrence_text, single=True)


def _get_occurrence(id_: UUID) -> Occurrence:
    row = Occurrence.objects.select_related("job").filter(id=id_).first()
    if row is None:
        raise PunctualError(
            f"{format_id('occ', id_)}: no such occurrence; `occurrences list` shows what there is"
        )
    return row


def _run_row(run: Any) -> Row:
    return {
        "id": run.display_id,
        "task": run.task.name,
        "state": run.state,
        "reason": run.reason,
        "error": run.error,
        "attempts": [
            {"number": item.number, "state": item.state, "worker": item.worker, "error": item.error}
            for item in sorted(run.attempts.all(), key=lambda item: item.number)
        ],
    }


def _hook_row(call: HookCall) -> Row:
    return {
        "event": call.event,
        "hook": call.hook,
        "result": call.result,
        "tries": call.tries,
        "worker": call.worker,
        "started_at": call.started_at,
        "finished_at": call.finished_at,
        "error": call.error,
    }


def occurrence_text(row: Row) -> str:
    children = ("runs", "hooks")
    lines = [
        f"{key}  {value}" for key, value in row.items() if key not in children and value not in (None, "")
    ]
    for run in row["runs"]:
        lines.append(f"run {run['task']}  {run['state']}  {run['error']}".rstrip())
        lines += [
            f"  attempt {item['number']}  {item['state']}  {item['worker']}" for item in run["attempts"]
        ]
    for call in row["hooks"]:
        result = f"{call['result']}  tries {call['tries']}  {call['error']}"
        lines.append(f"{call['event']} {call['hook']}  {result}".rstrip())
    return "\n".join(lines)


def add_selection(parser: ArgumentParser) -> None:
    add_ids(parser, "occ")
    add_filters(parser)


def replay_arguments(parser: ArgumentParser) -> None:
    add_selection(parser)
    parser.add_argument("--failed-only", action="store_true", help="only the tasks that did not succeed")
    parser.add_argument("--key", help="idempotency key: the same request again adds nothing")


def selection(options: Options) -> OccurrenceSelection:
    """Select by id or by at least one filter: leaving both out does not select everything."""
    ids = [parse_id(text, "occ") for text in options["ids"]]
    filters = {"job": "job", "state": "state", "from": "since", "to": "until"}
    criteria = {name: options[option] for name, option in filters.items() if options[option]}
    if not ids and not criteria:
        raise DefinitionError("ids", "", "expected ids, or a filter such as --job")
    rows = filter_occurrences(options)
    for id_ in ids:
        _get_occurrence(id_)  # refuses an unknown id before anything is done
    return OccurrenceSelection(rows.filter(id__in=ids)) if ids else OccurrenceSelection(rows, criteria)


def replay(options: Options) -> Answer:
    action = occurrence_actions.REPLAY_FAILED if options["failed_only"] else occurrence_actions.REPLAY
    call = Call(selection(options), database_now(), {"key": options["key"]})
    executed = execute(options, call, action, "replayed")
    if executed.result is None:
        return would_be("replayed", executed.previewed)
    created = executed.result.created
    closing = f"{len(created)} replayed, {executed.previewed - len(created)} refused"
    rows = ({"occurrence": format_id("occ", id_)} for id_ in created)
    return Answer(rows, closing=closing, exit_code=exit_code(options, len(created)))


def cancel(options: Options) -> Answer:
    return execute_and_count(options, selection(options), occurrence_actions.CANCEL, "canceled")


def skip(options: Options) -> Answer:
    return execute_and_count(options, selection(options), occurrence_actions.SKIP, "skipped")


VERBS = (
    Verb("list", "newest first, by job, state and time", list_occurrences, list_arguments),
    Verb("show", "one occurrence with its runs and attempts", show_occurrence, add_id),
    Verb("cancel", "cancel what is active; running functions see ctx.canceled", cancel, add_selection),
    Verb("skip", "skip what is planned or waiting", skip, add_selection),
    Verb("replay", "run finished occurrences again, as new ones", replay, replay_arguments),
)
