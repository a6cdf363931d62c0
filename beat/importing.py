"""PeriodicTasks of django-celery-beat → jobs that send the same messages, with a history (OCC-10).

A row is switched off in the transaction that makes its job: whichever beat reads next, it finds one of
the two. `send` is what imported jobs run; like everything that runs, it is registered by code.
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

from beat.translating import KINDS, definition_of
from jobs.context import Context
from jobs.definition import Definition
from jobs.errors import DefinitionError, NonRetryable
from jobs.ids import job_id
from jobs.models import Job, Origin, Task
from jobs.registry import TaskFunction
from jobs.store import BATCH, Change, store

FUNCTION = "beat.importing.send"
IMPORTED, REFUSED, ALREADY = "imported", "refused", "already imported"


@dataclass(frozen=True)
class Report:
    """What became of one row. `off` says that it is switched off in django-celery-beat."""

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
    """Send the Celery task that the job's metadata names, as Celery's own beat would.

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
    # A task this worker knows brings options of its own: its queue, its expiry.
    known = current_app.tasks.get(name)
    call = known.apply_async if known else partial(current_app.send_task, name)
    call(args=args, kwargs=kwargs, task_id=ctx.run_id.removeprefix("run_"), **options)


SEND = TaskFunction(FUNCTION, send)


def import_beat(
    *, author: str, now: datetime, dry_run: bool = False, switch_off: bool = True
) -> list[Report]:
    """What became, or with `dry_run` would become, of every PeriodicTask."""
    with transaction.atomic():
        rows = _rows(now, locked=not dry_run, switch_off=switch_off)
        if not dry_run:
            change = Change(Origin.ADMIN, author, now, reason="imported from django-celery-beat")
            store([row.definition for row in rows if row.definition], change)
            _switch_off([row.periodic.pk for row in rows if row.report.off])
    return [row.report for row in rows]


def _rows(now: datetime, *, locked: bool, switch_off: bool) -> list[_Row]:
    periodic = PeriodicTask.objects.select_related(*KINDS).order_by("pk")
    found = list(periodic.select_for_update(of=("self",)) if locked else periodic)
    jobs, imported = _known([job_id(row.name) for row in found])
    rows = []
    for row in found:
        job = jobs.get(row.name)
        if job is None:
            rows.append(_translated(row, now, switch_off=switch_off))
        elif job.id in imported:
            rows.append(_repeated(row, job, switch_off=switch_off))
        else:
            rows.append(_Row(row, Report(row.name, REFUSED, f"name={row.name!r}: another job has this name")))
    return rows


def _known(ids: Sequence[UUID]) -> tuple[dict[str, Job], set[UUID]]:
    """Jobs of these ids by name, and those among them that an import made."""
    jobs: dict[str, Job] = {}
    imported: set[UUID] = set()
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        jobs |= {job.name: job for job in Job.objects.filter(id__in=batch)}
        ours = Task.objects.current().filter(job__in=batch, function=FUNCTION)
        imported |= set(ours.values_list("job_id", flat=True))
    return jobs, imported


def _translated(row: Any, now: datetime, *, switch_off: bool) -> _Row:
    try:
        definition = definition_of(row, function=FUNCTION, now=now)
    except DefinitionError as error:
        return _Row(row, Report(row.name, REFUSED, str(error)))
    off = switch_off and row.enabled
    return _Row(row, Report(row.name, IMPORTED, schedule=definition.schedule, off=off), definition)


def _repeated(row: Any, job: Job, *, switch_off: bool) -> _Row:
    """The job may have been edited since and stays as it is.

    Only a job that runs replaces the row; one that was stopped may be on its way back to Celery.
    """
    off = switch_off and row.enabled and job.enabled and not job.removed
    return _Row(row, Report(row.name, ALREADY, schedule=job.schedule, off=off))


def _switch_off(ids: Sequence[int]) -> None:
    # As upstream's save() does it: without a last run, switching it on again owes nothing.
    for start in range(0, len(ids), BATCH):
        rows = PeriodicTask.objects.filter(pk__in=ids[start : start + BATCH])
        rows.update(enabled=False, last_run_at=None)
    if ids:
        PeriodicTasks.update_changed()  # running beats read their rows again
