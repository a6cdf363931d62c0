"""Create jobs from the PeriodicTasks of django-celery-beat that send the same messages (OCC-10).

A row is disabled in the transaction that creates its job, so every beat sees exactly one of the two enabled.
`send` is the function imported jobs run; like every function, it is registered by code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from celery import current_app
from django.db import transaction
from django_celery_beat.models import PeriodicTask, PeriodicTasks
from kombu.utils.json import loads

from punctual.beat.periodic_tasks.translation import KINDS, definition_of
from punctual.jobs.context import Context
from punctual.jobs.declaration.registry import TaskFunction
from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import DefinitionError, NonRetryable
from punctual.jobs.ids import job_id
from punctual.jobs.models import Job, Origin, Task
from punctual.jobs.store.definitions import Change, store
from punctual.jobs.store.rows import BATCH
from punctual.operations.permissions import SEND_MESSAGES

FUNCTION = "punctual.beat.periodic_tasks.importer.send"
IMPORTED, REFUSED, ALREADY = "imported", "refused", "already imported"


@dataclass(frozen=True)
class Report:
    """The result for one row. `off`: the row is disabled in django-celery-beat."""

    name: str
    fate: str
    reason: str = ""
    schedule: str = ""
    off: bool = False


@dataclass(frozen=True)
class _Row:
    periodic: Any
    report: Report
    definition: Definition | None = None


def send(ctx: Context) -> None:
    """Send the Celery task named in the job's metadata, as Celery's own beat would.

    The message carries the run's id, so that a second attempt is the same message.
    """
    try:
        name = ctx.metadata["celery_task"]
        args, kwargs, options = (
            loads(ctx.metadata.get(f"celery_{key}", empty))
            for key, empty in (("args", "[]"), ("kwargs", "{}"), ("options", "{}"))
        )
    except (KeyError, ValueError) as error:
        raise NonRetryable(f"metadata {dict(ctx.metadata)!r} names no message to send: {error!r}") from None
    # A task that this worker knows has options of its own: its queue, its expiry.
    task = current_app.tasks.get(name)
    call = task.apply_async if task else partial(current_app.send_task, name)
    call(args=args, kwargs=kwargs, task_id=ctx.run_id.removeprefix("run_"), **options)


SEND = TaskFunction(FUNCTION, send, permission=SEND_MESSAGES)


def import_beat(
    *, author: str, now: datetime, dry_run: bool = False, switch_off: bool = True
) -> list[Report]:
    """Import every PeriodicTask, or with `dry_run` report what an import would do."""
    with transaction.atomic():
        rows = _rows(now, locked=not dry_run, switch_off=switch_off)
        if not dry_run:
            reason = "imported from django-celery-beat"
            change = Change(Origin.ADMIN, author, now, reason=reason, permissions=(SEND_MESSAGES,))
            store([row.definition for row in rows if row.definition], change)
            _disable([row.periodic.pk for row in rows if row.report.off])
    return [row.report for row in rows]


def _rows(now: datetime, *, locked: bool, switch_off: bool) -> list[_Row]:
    ordered = PeriodicTask.objects.select_related(*KINDS).order_by("pk")
    periodic_tasks = list(ordered.select_for_update(of=("self",)) if locked else ordered)
    jobs, imported = _existing_jobs([job_id(periodic.name) for periodic in periodic_tasks])
    rows = []
    for periodic in periodic_tasks:
        job = jobs.get(periodic.name)
        if job is None:
            rows.append(_import_row(periodic, now, switch_off=switch_off))
        elif job.id in imported:
            rows.append(_imported_row(periodic, job, switch_off=switch_off))
        else:
            reason = f"name={periodic.name!r}: another job has this name"
            rows.append(_Row(periodic, Report(periodic.name, REFUSED, reason)))
    return rows


def _existing_jobs(ids: Sequence[UUID]) -> tuple[dict[str, Job], set[UUID]]:
    """The jobs with these ids by name, and the ids of those created by an import."""
    jobs: dict[str, Job] = {}
    imported: set[UUID] = set()
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        jobs |= {job.name: job for job in Job.objects.filter(id__in=batch)}
        senders = Task.objects.current().filter(job__in=batch, function=FUNCTION)
        imported |= set(senders.values_list("job_id", flat=True))
    return jobs, imported


def _import_row(periodic: Any, now: datetime, *, switch_off: bool) -> _Row:
    try:
        definition = definition_of(periodic, function=FUNCTION, now=now)
    except DefinitionError as error:
        return _Row(periodic, Report(periodic.name, REFUSED, str(error)))
    off = switch_off and periodic.enabled
    return _Row(periodic, Report(periodic.name, IMPORTED, schedule=definition.schedule, off=off), definition)


def _imported_row(periodic: Any, job: Job, *, switch_off: bool) -> _Row:
    """A job that was imported before is not changed: it may have been edited since.

    Its row is disabled only while the job is enabled: a stopped job may be on its way back to Celery.
    """
    off = switch_off and periodic.enabled and job.enabled and not job.removed
    return _Row(periodic, Report(periodic.name, ALREADY, schedule=job.schedule, off=off))


def _disable(ids: Sequence[int]) -> None:
    # Like upstream's save(): with last_run_at cleared, enabling the row again sends nothing for the past.
    for start in range(0, len(ids), BATCH):
        rows = PeriodicTask.objects.filter(pk__in=ids[start : start + BATCH])
        rows.update(enabled=False, last_run_at=None)
    if ids:
        PeriodicTasks.update_changed()  # running beats read their rows again
