"""Verbs that look: list, show, next."""

import json
from argparse import ArgumentParser
from typing import Any

from django.db.models import Prefetch

from jobs import control
from jobs.clock import database_now
from jobs.condition import condition, unresolved
from jobs.config import KEYS, TASK_KEYS, Config
from jobs.errors import DefinitionError, PunctualError
from jobs.models import Job, Task
from jobs.scheduling import job_config, task_config
from jobs.store import definition_of
from jobs.timing import timing
from jobs.verbs import Answer, Options, Row, Verb, connect
from jobs.verbs.operate import named

MOST_NEXT = 1000
SHOWN_NEXT = 5


def list_all(_options: Options) -> Answer:
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
    named(parser)
    parser.add_argument("-n", type=int, default=SHOWN_NEXT, help=f"how many (default {SHOWN_NEXT})")


def next_instants(options: Options) -> Answer:
    count = options["n"]
    if not 1 <= count <= MOST_NEXT:
        raise DefinitionError("-n", count, f"expected 1 to {MOST_NEXT}")
    return Answer({"at": instant.isoformat()} for instant in control.next_runs(options["name"], count))


def show(options: Options) -> Answer:
    job = control.get(options["name"])
    tasks = list(job.tasks.filter(retired_at=None).order_by("position"))
    when = timing(job, database_now(), SHOWN_NEXT)
    row: Row = {
        "id": job.shown_id,
        "name": job.name,
        "state": condition(job, tasks),
        "origin": job.origin,
        "version": job.version,
        "definition": definition_of(job, tasks).dumped(),
        "in_words": when.words or when.problem,
        "next": [fire.instant.isoformat() for fire in when.fires],
        "config": settings_of(job, None),
        "tasks": [
            {
                "name": task.name,
                "function": task.function,
                "resolved": not unresolved(task),
                "config": settings_of(job, task),
            }
            for task in tasks
        ],
    }
    return Answer([row], text, single=True)


def settings_of(job: Job, task: Task | None) -> Row:
    """Each setting with the layer it comes from; what raw SQL spoiled is told, not raised."""
    try:
        config = task_config(job, task) if task else job_config(job)
    except PunctualError as error:
        return {"problem": str(error)}
    return _layered(config, TASK_KEYS if task else frozenset(KEYS))


def _layered(config: Config, keys: frozenset[str]) -> Row:
    values = config.dumped(keys)
    return {key: {"value": values[key], "from": config.origin(key)} for key in sorted(keys)}


def text(row: Row) -> str:
    lines = [
        f"{row['name']}  {row['state']}  version {row['version']}  {row['origin']}  {row['id']}",
        f"schedule  {row['definition']['schedule']}  ({row['in_words']})",
        *(f"next  {instant}" for instant in row["next"]),
        *(f"metadata  {key} = {_json(value)}" for key, value in row["definition"]["metadata"].items()),
        *_settings(row["config"], ""),
    ]
    for task in row["tasks"]:
        note = "" if task["resolved"] else "  (unresolved: no code registers it)"
        lines += [f"task {task['name']}  {task['function']}{note}"]
        lines += _settings(task["config"], "  ", only="task")
    return "\n".join(lines)


def _settings(config: Row, indent: str, only: str = "") -> list[str]:
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


connect(
    Verb("list", "every job and its state", list_all),
    Verb("show", "definition, state, next instants, effective settings and their layers", show, named),
    Verb("next", "the next instants of a job", next_instants, next_arguments),
)
