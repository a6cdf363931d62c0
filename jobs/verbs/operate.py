"""Verbs that act on jobs by name: trigger, pause, resume, start, stop, sync."""

import json
from argparse import ArgumentParser
from typing import Any

from jobs import control
from jobs.clock import database_now
from jobs.errors import DefinitionError
from jobs.ids import shown
from jobs.sync import sync
from jobs.verbs import Answer, Options, Verb, connect

SHOWN = 80  # characters of a bad value


def named(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="the job's name")


def trigger_arguments(parser: ArgumentParser) -> None:
    named(parser)
    # Django takes an option stored as `args` for positional arguments and drops it.
    parser.add_argument(
        "--args", dest="given", default="{}", metavar="JSON", help="arguments for ctx.args, an object"
    )
    parser.add_argument("--config", default="{}", metavar="JSON", help="settings for this one run, an object")
    parser.add_argument("--key", help="identifies this request: within 24 hours it makes one occurrence only")


def trigger(options: Options) -> Answer:
    args, config = json_object("--args", options["given"]), json_object("--config", options["config"])
    made = control.trigger(options["name"], args=args, config=config, idempotency_key=options["key"])
    return Answer([{"occurrence": shown("occ", made)}])


def pause(options: Options) -> Answer:
    return _switched(options, control.pause(options["name"]), "paused", "was paused already")


def resume_arguments(parser: ArgumentParser) -> None:
    named(parser)
    choices = ", ".join(control.BACKLOGS)
    parser.add_argument("--backlog", default="none", help=f"what to run of what was skipped: {choices}")


def resume(options: Options) -> Answer:
    changed = control.resume(options["name"], backlog=options["backlog"])
    return _switched(options, changed, "resumed", "was not paused")


def start(options: Options) -> Answer:
    return _switched(options, control.start(options["name"]), "started", "was started already")


def stop(options: Options) -> Answer:
    return _switched(options, control.stop(options["name"]), "stopped", "was stopped already")


def sync_all(_options: Options) -> Answer:
    fates = vars(sync(database_now())).items()
    return Answer({"fate": fate, "count": len(names), "jobs": ", ".join(names)} for fate, names in fates)


def json_object(option: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(option, text[:SHOWN], f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DefinitionError(option, text[:SHOWN], "expected a JSON object such as {}")
    return value


def _switched(options: Options, changed: bool, done: str, was: str) -> Answer:  # noqa: FBT001 - the answer itself
    return Answer([{"name": options["name"], "result": done if changed else was}])


connect(
    Verb("sync", "write declared jobs to the database", sync_all),
    Verb("trigger", "run a job now", trigger, trigger_arguments),
    Verb("pause", "record instants as skipped until resumed", pause, named),
    Verb("resume", "let a paused job run again", resume, resume_arguments),
    Verb("start", "switch a stopped job on", start, named),
    Verb("stop", "switch a job off: nothing is planned until it is started", stop, named),
)
