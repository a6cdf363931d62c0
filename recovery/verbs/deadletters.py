"""Verbs about dead letters: list, show, replay, purge."""

from argparse import ArgumentParser
from dataclasses import asdict
from datetime import datetime

from jobs.clock import database_now
from jobs.durations import duration
from jobs.errors import DefinitionError, PunctualError
from jobs.ids import shown
from jobs.verbs import Answer, Options, Row, Verb
from occurrences.models import TaskRun
from recovery.deadletters import Wanted, dead, grouped, purge_dead, replay_dead
from recovery.verbs.acting import acted, listed, listing, several
from recovery.verbs.reading import identifier


def choosing(parser: ArgumentParser) -> None:
    parser.add_argument("--job", default="", help="only of this job")
    parser.add_argument("--task", default="", help="only of this task")
    parser.add_argument("--fingerprint", default="", help="only with this error")
    parser.add_argument("--search", default="", help="only with this text in the error or the job's name")
    parser.add_argument("--older-than", metavar="DURATION", help="only dead for longer, such as 30d")


def wanted(options: Options, now: datetime) -> Wanted:
    age = options["older_than"]
    try:
        before = now - duration(age) if age else None
    except ValueError as error:
        raise DefinitionError("--older-than", age, str(error)) from None
    return Wanted(
        ids=tuple(identifier(text, "run") for text in options.get("ids", ())),
        job=options["job"],
        task=options["task"],
        fingerprint=options["fingerprint"],
        search=options["search"],
        before=before,
    )


def list_arguments(parser: ArgumentParser) -> None:
    choosing(parser)
    listing(parser)
    parser.add_argument("--groups", action="store_true", help="one line for each error, the commonest first")


def list_some(options: Options) -> Answer:
    which, most = wanted(options, database_now()), listed(options)
    if options["groups"]:
        return Answer(asdict(group) for group in grouped(which)[:most])
    rows = dead(which).select_related("occurrence__job", "task")
    return Answer(map(brief, rows[:most]))


def brief(run: TaskRun) -> Row:
    return {
        "id": run.shown_id,
        "job": run.occurrence.job.name,
        "task": run.task.name,
        "died_at": run.finished_at,
        "reason": run.reason,
        "fingerprint": run.fingerprint,
        "error": run.error,
    }


def one(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="a run's id, with or without run_")


def show(options: Options) -> Answer:
    id_ = identifier(options["id"], "run")
    run = TaskRun.objects.filter(id=id_, state="dlq").select_related("occurrence__job", "task").first()
    if run is None:
        raise PunctualError(f"{shown('run', id_)}: no such dead letter; `dlq list` shows what there is")
    attempts = [
        {"number": item.number, "state": item.state, "worker": item.worker, "traceback": item.traceback}
        for item in run.attempts.order_by("number")
    ]
    told: Row = {"occurrence": run.occurrence.shown_id, "resolution": run.resolution, "attempts": attempts}
    return Answer([brief(run) | told], text, single=True)


def text(row: Row) -> str:
    lines = [f"{key}  {value}" for key, value in row.items() if key != "attempts" and value]
    lines += [
        f"attempt {item['number']}  {item['state']}  {item['worker']}\n{item['traceback']}".rstrip()
        for item in row["attempts"]
    ]
    return "\n".join(lines)


def some(parser: ArgumentParser) -> None:
    several(parser, "run")
    choosing(parser)
    parser.add_argument("--all", action="store_true", help="every dead letter there is")


def _chosen(options: Options) -> Wanted:
    """By id, by a filter, or all: nobody acts on everything by leaving something out."""
    which = wanted(options, database_now())
    if which == Wanted() and not options["all"]:
        raise DefinitionError("ids", "", "expected ids, a filter such as --job, or --all")
    return which


def replay(options: Options) -> Answer:
    which = _chosen(options)
    return acted(
        options,
        "replayed",
        count=dead(which).count,
        do=lambda doing: replay_dead(which, **vars(doing)).count,
    )


def purge(options: Options) -> Answer:
    which = _chosen(options)
    return acted(
        options, "purged", count=dead(which).count, do=lambda doing: purge_dead(which, **vars(doing)).count
    )


VERBS = {
    verb.name: verb
    for verb in (
        Verb("list", "newest first, or grouped by error", list_some, list_arguments),
        Verb("show", "one dead letter with its attempts and tracebacks", show, one),
        Verb("replay", "run them again, each as a new occurrence of its task", replay, some),
        Verb("purge", "take them off the list; the ledger keeps them", purge, some),
    )
}
