"""A job → the tables below its fields: tasks, next fires, effective configuration, versions."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.admin.definition import function_shown, retired
from jobs.changes import Changed
from jobs.config import TASK_KEYS
from jobs.display import NOTHING, Section, instant, link, list_url, shortened
from jobs.errors import PunctualError
from jobs.models import Job, JobVersion, Task
from jobs.scheduling import job_config, task_config
from jobs.secrecy import cleansed
from jobs.timing import Timing

MOST_TASKS = 100
RECENT_VERSIONS = 10
LONG_REASON = 80
DEFAULT = "default"


def tasks_section(job: Job, tasks: Iterable[Task]) -> Section:
    rows = [
        [link(task, shortened(task.name)), function_shown(task), task.position + 1, retired(task)]
        for task in tasks
    ]
    more = list_url("jobs_task", job__id__exact=job.pk)
    headers = ["task", "function", "order", "retired"]
    return Section("Tasks", headers, rows, more, empty="No tasks: there is nothing it could run.")


def fires_section(timing: Timing, zone: ZoneInfo | None) -> Section:
    """The second column only where clocks change."""
    title = "Next fires of the schedule"
    if not any(fire.note for fire in timing.fires):
        told = timing.problem or "It fires no more."
        return Section(title, ["instant"], [[instant(one.instant, zone)] for one in timing.fires], empty=told)
    rows = [[instant(fire.instant, zone), fire.note or NOTHING] for fire in timing.fires]
    return Section(title, ["instant", "clock change"], rows)


def configuration_sections(job: Job, tasks: Sequence[Task]) -> list[Section]:
    """What somebody has set, and folded below it what nobody has."""
    title, headers = "Effective configuration", ["setting", "value", "from", "for"]
    try:
        rows = list(_settings(job, tasks))
    except PunctualError as error:  # rows can be edited by any road
        return [Section(title, headers, [[value(str(error)), NOTHING, NOTHING, NOTHING]])]
    usual = [cells for origin, cells in rows if origin == DEFAULT]
    chosen = [cells for origin, cells in rows if origin != DEFAULT]
    fold = f"{len(usual)} settings are as by default"
    told = Section(title, headers, chosen, empty="Nothing is set: everything is as by default.")
    return [told, Section("Defaults", headers, usual, fold=fold)] if usual else [told]


def _settings(job: Job, tasks: Sequence[Task]) -> Iterator[tuple[str, list[object]]]:
    """Each with its origin: a value for the whole job, and below it those tasks for which it is another."""
    whole = job_config(job)
    each = [(task, task_config(job, task)) for task in tasks if task.config and not task.retired_at]
    steps = [(task, config, config.dumped()) for task, config in each]
    for key, stored in whole.dumped().items():
        yield whole.origin(key), [code(key), value(stored), whole.origin(key), shortened("the job")]
        for task, config, dumped in steps:
            if key in TASK_KEYS and config.origin(key) == "task":
                yield "task", [code(key), value(dumped[key]), "task", link(task, shortened(task.name))]


def versions_section(job: Job) -> Section:
    newest = JobVersion.objects.filter(job=job).defer("before", "after").order_by("-number")
    rows = [
        [
            link(version, f"version {version.number}"),
            shortened(version.author),
            instant(version.created_at),
            shortened(version.reason, LONG_REASON) if version.reason else NOTHING,
        ]
        for version in newest[:RECENT_VERSIONS]
    ]
    more = list_url("jobs_jobversion", job__id__exact=job.pk)
    return Section("Versions", ["version", "author", "time", "reason"], rows, more)


def changes_section(title: str, changed: Iterable[Changed]) -> Section:
    rows = [[code(one.field), value(one.before), value(one.after)] for one in changed]
    return Section(title, ["field", "before", "after"], rows)


def code(text: str) -> SafeString:
    return format_html('<code style="overflow-wrap: break-word">{}</code>', text)


def value(stored: Any) -> SafeString | str:
    """Text as it is, everything else as JSON; long ones wrap."""
    if stored is None:
        return NOTHING
    shown = cleansed(stored)
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
    return format_html('<code style="white-space: pre-wrap; overflow-wrap: anywhere">{}</code>', text)
