"""Verbs about dead letters: list, show, replay, purge."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Protocol

from jobs.clock import database_now
from jobs.durations import duration
from jobs.errors import DefinitionError, PunctualError
from jobs.ids import shown
from jobs.progress import Progress
from jobs.verbs import Answer, Options, Row, Verb
from occurrences.models import TaskRun
from recovery.audit import Asked
from recovery.deadletters import Dealt, Wanted, dead, grouped, purge_dead, replay_dead
from recovery.verbs.reading import asked, asking, identifier

SHOWN = 50


class Step(Protocol):
    def __call__(
        self, wanted: Wanted, *, asked: Asked, now: datetime, progress: Callable[[int], object]
    ) -> Dealt: ...


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
    parser.add_argument("-n", type=int, default=SHOWN, help=f"at most so many (default {SHOWN})")
    parser.add_argument("--groups", action="store_true", help="one line for each error, the commonest first")


def list_some(options: Options) -> Answer:
    which = wanted(options, database_now())
    if options["groups"]:
        return Answer(asdict(group) for group in grouped(which)[: options["n"]])
    rows = dead(which).select_related("occurrence__job", "task")
    return Answer(map(brief, rows[: options["n"]]))


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


def several(parser: ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="ids of runs, with or without run_")
    choosing(parser)
    parser.add_argument("--all", action="store_true", help="every dead letter there is")
    parser.add_argument("--dry-run", action="store_true", help="only say how many")
    asking(parser)


def _chosen(options: Options, now: datetime) -> Wanted:
    which = wanted(options, now)
    if which == Wanted() and not options["all"]:
        raise DefinitionError("ids", "", "expected ids, a filter such as --job, or --all")
    return which


def replay(options: Options) -> Answer:
    return _deal(options, "replayed", replay_dead)


def purge(options: Options) -> Answer:
    return _deal(options, "purged", purge_dead)


def _deal(options: Options, done: str, step: Step) -> Answer:
    now = database_now()
    which = _chosen(options, now)
    count = dead(which).count()
    if options["dry_run"]:
        return Answer([{"result": f"would be {done}", "count": count}])
    dealt = step(which, asked=asked(options), now=now, progress=Progress(sys.stderr, count, done))
    return Answer([{"result": done, "count": dealt.count}])


VERBS = {
    verb.name: verb
    for verb in (
        Verb("list", "newest first, or grouped by error", list_some, list_arguments),
        Verb("show", "one dead letter with its attempts and tracebacks", show, one),
        Verb("replay", "run them again, each as a new occurrence of its task", replay, several),
        Verb("purge", "take them off the list; the ledger keeps them", purge, several),
    )
}
