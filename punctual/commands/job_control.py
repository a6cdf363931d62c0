"""`jobs trigger`, `pause`, `resume`, `start`, `stop`, `sync`."""

import json
from argparse import ArgumentParser
from typing import Any

from punctual.commands.verb import Answer, Options, Verb
from punctual.jobs import control
from punctual.jobs.clock import database_now
from punctual.jobs.declaration.sync import sync
from punctual.jobs.errors import DefinitionError
from punctual.jobs.ids import format_id

MAX_ECHOED = 80  # characters of a wrong value that an error repeats


def add_name(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="the job's name")


def trigger_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    # Not stored as `args`: Django would take it for positional arguments and drop it.
    parser.add_argument(
        "--args", dest="given", default="{}", metavar="JSON", help="arguments for ctx.args, an object"
    )
    parser.add_argument("--config", default="{}", metavar="JSON", help="settings for this one run, an object")
    parser.add_argument("--key", help="idempotency key: one occurrence only within 24 hours")


def trigger(options: Options) -> Answer:
    args, config = (
        parse_json_object("--args", options["given"]),
        parse_json_object("--config", options["config"]),
    )
    occurrence_id = control.trigger(options["name"], args=args, config=config, idempotency_key=options["key"])
    return Answer([{"occurrence": format_id("occ", occurrence_id)}])


def pause(options: Options) -> Answer:
    return _switch_answer(options, control.pause(options["name"]), "paused", "was paused already")


def resume_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    choices = ", ".join(control.BACKLOGS)
    parser.add_argument("--backlog", default="none", help=f"which skipped instants to run: {choices}")


def resume(options: Options) -> Answer:
    changed = control.resume(options["name"], backlog=options["backlog"])
    return _switch_answer(options, changed, "resumed", "was not paused")


def start(options: Options) -> Answer:
    return _switch_answer(options, control.start(options["name"]), "started", "was started already")


def stop(options: Options) -> Answer:
    return _switch_answer(options, control.stop(options["name"]), "stopped", "was stopped already")


def sync_jobs(_options: Options) -> Answer:
    fates = vars(sync(database_now())).items()
    return Answer({"fate": fate, "count": len(names), "jobs": ", ".join(names)} for fate, names in fates)


def parse_json_object(option: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(option, text[:MAX_ECHOED], f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DefinitionError(option, text[:MAX_ECHOED], "expected a JSON object such as {}")
    return value


def _switch_answer(options: Options, changed: bool, done: str, already: str) -> Answer:  # noqa: FBT001 - what the switch returned
    return Answer([{"name": options["name"], "result": done if changed else already}])


VERBS = (
    Verb("sync", "write declared jobs to the database", sync_jobs),
    Verb("trigger", "run a job now", trigger, trigger_arguments),
    Verb("pause", "record due instants as skipped until the job is resumed", pause, add_name),
    Verb("resume", "let a paused job run again", resume, resume_arguments),
    Verb("start", "switch a stopped job on", start, add_name),
    Verb("stop", "switch a job off: nothing is planned until it is started", stop, add_name),
)
