"""`jobs list`, `show`, `next`: read jobs without changing them."""

import json
from argparse import ArgumentParser
from typing import Any

from django.db.models import Prefetch

from punctual.commands.job_control import add_name
from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.jobs import control
from punctual.jobs.clock import database_now
from punctual.jobs.condition import condition, is_unresolved, unresolved_hooks
from punctual.jobs.config.cascade import Config, job_config, task_config
from punctual.jobs.config.keys import KEYS, TASK_KEYS
from punctual.jobs.errors import DefinitionError, PunctualError
from punctual.jobs.job_schedule import schedule_summary
from punctual.jobs.models import Job, Task
from punctual.jobs.store.rows import definition_of

MAX_NEXT = 1000
DEFAULT_NEXT = 5


def list_jobs(_options: Options) -> Answer:
    jobs = Job.objects.prefetch_related(Prefetch("tasks", Task.objects.current()))
    return Answer(
        {
            "name": job.name,
            "state": condition(job, job.tasks.all()),
            "schedule": job.schedule,
            "version": job.version,
        }
        for job in jobs.iterator(chunk_size=1000)
    )


def next_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("-n", type=int, default=DEFAULT_NEXT, help=f"how many (default {DEFAULT_NEXT})")


def list_next(options: Options) -> Answer:
    count = options["n"]
    if not 1 <= count <= MAX_NEXT:
        raise DefinitionError("-n", count, f"expected 1 to {MAX_NEXT}")
    return Answer({"at": instant.isoformat()} for instant in control.next_runs(options["name"], count))


def show_job(options: Options) -> Answer:
    job = control.get_job(options["name"])
    tasks = list(job.tasks.filter(retired_at=None).order_by("position"))
    summary = schedule_summary(job, database_now(), DEFAULT_NEXT)
    row: Row = {
        "id": job.display_id,
        "name": job.name,
        "state": condition(job, tasks),
        "origin": job.origin,
        "version": job.version,
        "definition": definition_of(job, tasks).to_json(),
        "in_words": summary.words or summary.problem,
        "next": [fire.instant.isoformat() for fire in summary.fires],
        "config": describe_settings(job, None),
        "tasks": [
            {
                "name": task.name,
                "function": task.function,
                "resolved": not is_unresolved(task),
                "config": describe_settings(job, task),
            }
            for task in tasks
        ],
        "unresolved_hooks": _unresolved_hooks(job),
    }
    return Answer([row], job_text, single=True)


def _unresolved_hooks(job: Job) -> list[str]:
    try:
        return [str(error) for error in unresolved_hooks(job_config(job).to_json())]
    except PunctualError:  # the problem is shown with the settings
        return []


def describe_settings(job: Job, task: Task | None) -> Row:
    """Return each setting with the layer it comes from, or the problem if raw SQL stored a wrong value."""
    try:
        config = task_config(job, task) if task else job_config(job)
    except PunctualError as error:
        return {"problem": str(error)}
    return _layers(config, TASK_KEYS if task else frozenset(KEYS))


def _layers(config: Config, keys: frozenset[str]) -> Row:
    values = config.to_json(keys)
    return {key: {"value": values[key], "from": config.origin(key)} for key in sorted(keys)}


def job_text(row: Row) -> str:
    lines = [
        f"{row['name']}  {row['state']}  version {row['version']}  {row['origin']}  {row['id']}",
        f"schedule  {row['definition']['schedule']}  ({row['in_words']})",
        *(f"next  {instant}" for instant in row["next"]),
        *(f"metadata  {key} = {_json(value)}" for key, value in row["definition"]["metadata"].items()),
        *_setting_lines(row["config"], ""),
    ]
    for task in row["tasks"]:
        note = "" if task["resolved"] else "  (unresolved: no code registers it)"
        lines += [f"task {task['name']}  {task['function']}{note}"]
        lines += _setting_lines(task["config"], "  ", only="task")
    lines += [f"unresolved  {error}" for error in row["unresolved_hooks"]]
    return "\n".join(lines)


def _setting_lines(config: Row, indent: str, only: str = "") -> list[str]:
    if "problem" in config:
        return [f"{indent}config  {config['problem']}"]
    width = max(len(key) for key in config)
    return [
        f"{indent}{key:{width}}  {_json(item['value'])}  from {item['from']}"
        for key, item in config.items()
        if not only or item["from"] == only
    ]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


VERBS = (
    Verb("list", "every job and its state", list_jobs),
    Verb("show", "definition, state, next instants, effective settings and their layers", show_job, add_name),
    Verb("next", "the next instants of a job", list_next, next_arguments),
)
