"""Tables below the fields of a job: tasks, next fires, configuration, newest occurrences, versions."""

import json
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.html import format_html
from django.utils.safestring import SafeString

from punctual.console.definitions.definition_pages import function_cell, retired_cell, unresolved_badge
from punctual.console.kit.badges import state_badge
from punctual.console.kit.display import NOTHING, Section, instant, link, list_url, short_id, shorten, zone_of
from punctual.console.ledger.ledger_pages import elapsed_cell
from punctual.jobs.condition import unresolved_hooks
from punctual.jobs.config.cascade import job_config, task_config
from punctual.jobs.config.keys import TASK_KEYS
from punctual.jobs.definition.comparison import FieldChange
from punctual.jobs.errors import PunctualError
from punctual.jobs.job_schedule import ScheduleSummary
from punctual.jobs.models import Job, JobVersion, Task
from punctual.jobs.redaction import redact_document
from punctual.occurrences.models import Occurrence
from punctual.occurrences.states import OccurrenceState

MAX_TASKS = 100
MAX_VERSIONS = 10
MAX_NEWEST = 10  # occurrences
LONG_REASON = 80
DEFAULT = "default"


def tasks_section(job: Job, tasks: Iterable[Task]) -> Section:
    rows = [
        [link(task, shorten(task.name)), function_cell(task), task.position + 1, retired_cell(task)]
        for task in tasks
    ]
    more = list_url("punctual_task", job__id__exact=job.pk)
    headers = ["task", "function", "order", "retired"]
    return Section("Tasks", headers, rows, more, empty="No tasks: there is nothing it could run.")


def hooks_section(job: Job) -> list[Section]:
    """List the hooks, if the job or the platform names any."""
    try:
        config = job_config(job).to_json()
    except PunctualError:  # shown with the configuration
        return []
    unresolved = {error.value for error in unresolved_hooks(config)}
    rows = [
        [code_cell(event), hook_cell(name, is_unresolved=name in unresolved)]
        for event in ("on_start", "on_complete")
        for name in config[event]
    ]
    return [Section("Hooks", ["event", "hook"], rows)] if rows else []


def hook_cell(name: str, *, is_unresolved: bool) -> SafeString:
    if not is_unresolved:
        return code_cell(name)
    return format_html("{} {}", code_cell(name), unresolved_badge())


def fires_section(timing: ScheduleSummary, zone: ZoneInfo | None) -> Section:
    """List the next fires; a second column notes clock changes, if there are any."""
    title = "Next fires of the schedule"
    if not any(fire.note for fire in timing.fires):
        instants = [[instant(fire.instant, zone)] for fire in timing.fires]
        return Section(title, ["instant"], instants, empty=timing.problem or "It fires no more.")
    rows = [[instant(fire.instant, zone), fire.note or NOTHING] for fire in timing.fires]
    return Section(title, ["instant", "clock change"], rows)


def configuration_sections(job: Job, tasks: Sequence[Task]) -> list[Section]:
    """List the settings that are set, and folded below them the defaults."""
    title, headers = "Effective configuration", ["setting", "value", "from", "for"]
    try:
        rows = list(_settings(job, tasks))
    except PunctualError as error:  # raw SQL may have written anything
        return [Section(title, headers, [[value_cell(str(error)), NOTHING, NOTHING, NOTHING]])]
    defaults = [cells for origin, cells in rows if origin == DEFAULT]
    overrides = [cells for origin, cells in rows if origin != DEFAULT]
    fold = f"{len(defaults)} settings are as by default"
    section = Section(title, headers, overrides, empty="Nothing is set: everything is as by default.")
    return [section, Section("Defaults", headers, defaults, fold=fold)] if defaults else [section]


def _settings(job: Job, tasks: Sequence[Task]) -> Iterator[tuple[str, list[object]]]:
    """Yield each setting with its origin: the value of the job, then the tasks that override it."""
    whole = job_config(job)
    each = [(task, task_config(job, task)) for task in tasks if task.config and not task.retired_at]
    steps = [(task, config, config.to_json()) for task, config in each]
    for key, stored in whole.to_json().items():
        yield whole.origin(key), [code_cell(key), value_cell(stored), whole.origin(key), shorten("the job")]
        for task, config, dumped in steps:
            if key in TASK_KEYS and config.origin(key) == "task":
                yield (
                    "task",
                    [code_cell(key), value_cell(dumped[key]), "task", link(task, shorten(task.name))],
                )


def newest_section(job: Job) -> Section:
    rows = [_newest_cells(one, job) for one in newest_occurrences(job)]
    headers = ["occurrence", "state", "cause", "scheduled for", "started", "took", "reason"]
    more = list_url("punctual_occurrence", job__id__exact=job.pk)
    return Section("Newest occurrences", headers, rows, more)


def newest_occurrences(job: Job) -> list[Occurrence]:
    """Return what is under way, then what waits, then the newest: a queue may be older than the last ten."""
    history = Occurrence.objects.filter(job=job).defer("config", "args", "report")
    # Without an order: by time PostgreSQL would search all of history for these few.
    active = list(history.active().order_by()[:MAX_NEWEST])
    waiting = list(history.waiting().order_by("run_at")[: MAX_NEWEST - len(active)])
    open_rows = {row.pk: row for row in (*sorted(active, key=attrgetter("scheduled_for")), *waiting)}
    newest = {row.pk: row for row in history[:MAX_NEWEST]}
    return list((open_rows | newest).values())[:MAX_NEWEST]


def _newest_cells(one: Occurrence, job: Job) -> list[object]:
    zone = zone_of(job)
    return [
        link(one, short_id(one.display_id)),
        state_badge(OccurrenceState(one.state), one.reason),
        one.get_cause_display(),
        instant(one.scheduled_for, zone),
        instant(one.started_at, zone),
        elapsed_cell(one),
        shorten(one.reason),
    ]


def versions_section(job: Job) -> Section:
    newest = JobVersion.objects.filter(job=job).defer("before", "after").order_by("-number")
    rows = [
        [
            link(version, f"version {version.number}"),
            shorten(version.author),
            instant(version.created_at),
            shorten(version.reason, LONG_REASON) if version.reason else NOTHING,
        ]
        for version in newest[:MAX_VERSIONS]
    ]
    more = list_url("punctual_jobversion", job__id__exact=job.pk)
    return Section("Versions", ["version", "author", "time", "reason"], rows, more)


def changes_section(title: str, changed: Iterable[FieldChange]) -> Section:
    rows = [[code_cell(one.field), value_cell(one.before), value_cell(one.after)] for one in changed]
    return Section(title, ["field", "before", "after"], rows)


def code_cell(text: str) -> SafeString:
    return format_html('<code style="overflow-wrap: break-word">{}</code>', text)


def value_cell(stored: Any) -> SafeString | str:
    """Show text as it is, everything else as JSON; long values wrap."""
    if stored is None:
        return NOTHING
    redacted = redact_document(stored)
    text = redacted if isinstance(redacted, str) else json.dumps(redacted, ensure_ascii=False)
    return format_html('<code style="white-space: pre-wrap; overflow-wrap: anywhere">{}</code>', text)
