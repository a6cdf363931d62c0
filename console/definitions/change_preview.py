"""Preview a definition before it is stored: changed fields, planned occurrences, next fires."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from punctual.console.definitions.sections import changes_section, fires_section
from punctual.console.kit.display import Section, badge, instant, zone_of
from punctual.jobs.definition.comparison import FieldChange
from punctual.jobs.definition.document import Definition
from punctual.jobs.job_schedule import ScheduleSummary, schedule_summary, schedule_warnings
from punctual.jobs.ledger_interface import connected_ledger
from punctual.jobs.models import Job
from punctual.jobs.store.update_policy import PendingDiff, UpdatePolicy

MAX_PLANNED = 50
FATES = {"added": ("good", "check"), "removed": ("bad", "cross"), "kept": ("calm", "ring")}


@dataclass(frozen=True)
class ChangePreview:
    schedule: str
    summary: ScheduleSummary
    warnings: Sequence[str] = ()
    sections: Sequence[Section] = ()


def preview_change(
    after: Definition, job: Job | None, changed: Sequence[FieldChange], *, policy: UpdatePolicy, now: datetime
) -> ChangePreview:
    row = Job(
        name=after.name,
        schedule=after.schedule,
        config=dict(after.config),
        created_at=job.created_at if job else now,
    )
    summary, zone = schedule_summary(row, now), zone_of(row)
    if summary.problem:  # the schedule cannot be planned, so there is nothing to compare
        return ChangePreview(after.schedule, summary)
    [diff] = connected_ledger().preview([after], policy=policy, now=now)
    tables = [
        changes_section("Definition", changed),
        *([pending_section(diff, zone)] if job else []),
        fires_section(summary, zone),
    ]
    return ChangePreview(after.schedule, summary, schedule_warnings(row, now), tables)


def pending_section(diff: PendingDiff, zone: ZoneInfo | None) -> Section:
    fates = sorted((at, fate) for fate in FATES for at in getattr(diff, fate))
    rows: list[list[object]] = [
        [badge(fate, *FATES[fate]), instant(at, zone)] for at, fate in fates[:MAX_PLANNED]
    ]
    if len(fates) > MAX_PLANNED:
        rows.append(["…", f"and {len(fates) - MAX_PLANNED} more"])
    counts = ", ".join(f"{len(getattr(diff, fate))} {fate}" for fate in FATES)
    return Section(f"Planned occurrences: {counts}", ["what happens", "scheduled for"], rows)
