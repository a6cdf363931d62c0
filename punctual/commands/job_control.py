"""`jobs trigger`, `pause`, `resume`, `start`, `stop`, `remove`, `sync`."""

import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from punctual.commands.action_runner import Executed, add_request, execute
from punctual.commands.arguments import parse_optional_instant
from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.jobs import control
from punctual.jobs.clock import database_now
from punctual.jobs.declaration.sync import sync
from punctual.jobs.errors import DefinitionError
from punctual.jobs.ids import format_id
from punctual.jobs.models import Job
from punctual.occurrences.planning.paused_instants import preview_backlog
from punctual.operations import job_actions
from punctual.operations.action import Action, Call

MAX_ECHOED = 80  # characters of a wrong value that an error repeats


def add_name(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="the job's name")


def add_request_on_a_job(parser: ArgumentParser) -> None:
    add_name(parser)
    add_request(parser)


def trigger_arguments(parser: ArgumentParser) -> None:
    add_request_on_a_job(parser)
    # Not stored as `args`: Django would take it for positional arguments and drop it.
    parser.add_argument(
        "--args", dest="given", default="{}", metavar="JSON", help="arguments for ctx.args, an object"
    )
    parser.add_argument("--config", default="{}", metavar="JSON", help="settings for this one run, an object")
    parser.add_argument("--key", help="idempotency key: the same request again, within a day, adds nothing")


def trigger(options: Options) -> Answer:
    values = {
        "args": parse_json_object("--args", options["given"]),
        "config": parse_json_object("--config", options["config"]),
        "idempotency_key": options["key"],
    }
    executed = _execute(options, job_actions.RUN, values)
    if executed.result is None:
        return _switch_answer(options, executed, "run", "is not registered")
    return _refused(executed) or Answer([{"occurrence": format_id("occ", executed.result.created[0])}])


def pause_arguments(parser: ArgumentParser) -> None:
    add_request_on_a_job(parser)
    parser.add_argument("--until", metavar="INSTANT", help="a beat resumes the job then (default: never)")
    choices = ", ".join(control.BACKLOGS)
    parser.add_argument("--backlog", default="none", help=f"with --until: which instants to run: {choices}")


def pause(options: Options) -> Answer:
    until = parse_optional_instant("--until", options["until"])
    executed = _execute(options, job_actions.PAUSE, {"until": until, "backlog": options["backlog"]})
    return _switch_answer(options, executed, "paused", "was paused already")


def resume_arguments(parser: ArgumentParser) -> None:
    add_request_on_a_job(parser)
    choices = ", ".join(control.BACKLOGS)
    parser.add_argument("--backlog", default="none", help=f"which skipped instants to run: {choices}")


def resume(options: Options) -> Answer:
    """Answer with what the choice runs, counted before the job is resumed."""
    job, choice = control.get_job(options["name"]), options["backlog"]
    backlog = preview_backlog(job, database_now())
    executed = _execute(options, job_actions.RESUME, {"backlog": choice})
    answer = _switch_answer(options, executed, "resumed", "was not paused")
    if not job.paused or answer.refusal:
        return answer
    counts = {"instants": backlog.instants, "backlog": choice, "runs": backlog.runs(choice)}
    return replace(answer, rows=[{**row, **counts} for row in answer.rows], line=_resumed_line)


def _resumed_line(row: Row) -> str:
    counts = f"{row['instants']} instants of the pause, backlog {row['backlog']}: {row['runs']} of them run"
    return f"{row['name']}  {row['result']}  ({counts})"


def start(options: Options) -> Answer:
    return _switch_answer(options, _execute(options, job_actions.START), "started", "was started already")


def stop(options: Options) -> Answer:
    return _switch_answer(options, _execute(options, job_actions.STOP), "stopped", "was stopped already")


def remove(options: Options) -> Answer:
    return _switch_answer(options, _execute(options, job_actions.REMOVE), "removed", "was removed already")


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


def _execute(
    options: Options, action: Action[Sequence[Job]], values: Mapping[str, Any] | None = None
) -> Executed:
    job = control.get_job(options["name"])
    return execute(options, Call([job], database_now(), values or {}), action, "done")


def _switch_answer(options: Options, executed: Executed, done: str, already: str) -> Answer:
    """Say what became of the job, or with --dry-run what would."""
    if executed.result is None:
        result = f"would be {done}" if executed.previewed else already
    else:
        result = done if executed.result.count else already
    return _refused(executed) or Answer([{"name": options["name"], "result": result}])


def _refused(executed: Executed) -> Answer | None:
    problems = executed.result.problems if executed.result else ()
    return Answer([], refusal="; ".join(problems)) if problems else None


VERBS = (
    Verb("sync", "write declared jobs to the database", sync_jobs),
    Verb("trigger", "run a job now", trigger, trigger_arguments),
    Verb("pause", "record due instants as skipped until the job is resumed", pause, pause_arguments),
    Verb("resume", "let a paused job run again", resume, resume_arguments),
    Verb("start", "switch a stopped job on", start, add_request_on_a_job),
    Verb("stop", "switch a job off: nothing is planned until it is started", stop, add_request_on_a_job),
    Verb("remove", "remove a job made in the admin; its history stays", remove, add_request_on_a_job),
)
