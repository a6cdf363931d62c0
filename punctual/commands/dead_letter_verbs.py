"""`dlq list`, `show`, `replay`, `purge`: dead letters."""

from argparse import ArgumentParser
from dataclasses import asdict
from datetime import datetime

from punctual.commands.action_runner import add_ids, add_limit, execute_and_count, limit_of
from punctual.commands.arguments import parse_id
from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.jobs.clock import database_now
from punctual.jobs.config.bounded_duration import duration
from punctual.jobs.errors import DefinitionError, PunctualError
from punctual.jobs.ids import format_id
from punctual.occurrences.models import TaskRun
from punctual.operations import dead_letter_actions
from punctual.recovery.dead_letters import (
    DeadLetterFilter,
    find_dead_letters,
    group_by_error,
)


def add_filters(parser: ArgumentParser) -> None:
    parser.add_argument("--job", default="", help="only of this job")
    parser.add_argument("--task", default="", help="only of this task")
    parser.add_argument("--fingerprint", default="", help="only with this error")
    parser.add_argument("--search", default="", help="only with this text in the error or the job's name")
    parser.add_argument("--older-than", metavar="DURATION", help="only dead for longer, such as 30d")


def filter_of(options: Options, now: datetime) -> DeadLetterFilter:
    age = options["older_than"]
    try:
        before = now - duration(age) if age else None
    except ValueError as error:
        raise DefinitionError("--older-than", age, str(error)) from None
    return DeadLetterFilter(
        ids=tuple(parse_id(text, "run") for text in options.get("ids", ())),
        job=options["job"],
        task=options["task"],
        fingerprint=options["fingerprint"],
        search=options["search"],
        before=before,
    )


def list_arguments(parser: ArgumentParser) -> None:
    add_filters(parser)
    add_limit(parser)
    parser.add_argument(
        "--groups", action="store_true", help="one line for each error, the most frequent first"
    )


def list_dead_letters(options: Options) -> Answer:
    criteria, limit = filter_of(options, database_now()), limit_of(options)
    if options["groups"]:
        return Answer(asdict(group) for group in group_by_error(criteria)[:limit])
    rows = find_dead_letters(criteria).select_related("occurrence__job", "task")
    return Answer(map(summary_row, rows[:limit]))


def summary_row(run: TaskRun) -> Row:
    return {
        "id": run.display_id,
        "job": run.occurrence.job.name,
        "task": run.task.name,
        "died_at": run.finished_at,
        "reason": run.reason,
        "fingerprint": run.fingerprint,
        "error": run.error,
    }


def add_id(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="a run's id, with or without run_")


def show_dead_letter(options: Options) -> Answer:
    id_ = parse_id(options["id"], "run")
    run = TaskRun.objects.filter(id=id_, state="dlq").select_related("occurrence__job", "task").first()
    if run is None:
        raise PunctualError(f"{format_id('run', id_)}: no such dead letter; `dlq list` shows what there is")
    attempts = [
        {"number": item.number, "state": item.state, "worker": item.worker, "traceback": item.traceback}
        for item in run.attempts.order_by("number")
    ]
    details: Row = {
        "occurrence": run.occurrence.display_id,
        "resolution": run.resolution,
        "attempts": attempts,
    }
    return Answer([summary_row(run) | details], dead_letter_text, single=True)


def dead_letter_text(row: Row) -> str:
    lines = [f"{key}  {value}" for key, value in row.items() if key != "attempts" and value]
    lines += [
        f"attempt {item['number']}  {item['state']}  {item['worker']}\n{item['traceback']}".rstrip()
        for item in row["attempts"]
    ]
    return "\n".join(lines)


def add_selection(parser: ArgumentParser) -> None:
    add_ids(parser, "run")
    add_filters(parser)
    parser.add_argument("--all", action="store_true", help="every dead letter")


def _selection(options: Options) -> DeadLetterFilter:
    """Select by id, by a filter, or with --all: leaving all of them out does not select everything."""
    criteria = filter_of(options, database_now())
    if criteria == DeadLetterFilter() and not options["all"]:
        raise DefinitionError("ids", "", "expected ids, a filter such as --job, or --all")
    return criteria


def replay(options: Options) -> Answer:
    return execute_and_count(options, _selection(options), dead_letter_actions.REPLAY, "replayed")


def purge(options: Options) -> Answer:
    return execute_and_count(options, _selection(options), dead_letter_actions.PURGE, "purged")


VERBS = (
    Verb("list", "newest first, or grouped by error", list_dead_letters, list_arguments),
    Verb("show", "one dead letter with its attempts and tracebacks", show_dead_letter, add_id),
    Verb("replay", "run them again, each as a new occurrence of its task", replay, add_selection),
    Verb("purge", "take them off the list; the ledger keeps them", purge, add_selection),
)
