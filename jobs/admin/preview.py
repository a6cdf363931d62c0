"""A definition not yet stored → what the confirmation page shows of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from jobs.admin.sections import changes_section, fires_section
from jobs.changes import Changed
from jobs.definition import Definition
from jobs.display import Section, badge, instant, zone_of
from jobs.ledger import connected
from jobs.models import Job
from jobs.policy import PendingDiff, UpdatePolicy
from jobs.timing import Timing, doubts, timing

MOST_SHOWN = 50
FATES = {"added": ("good", "check"), "removed": ("bad", "cross"), "kept": ("calm", "ring")}


@dataclass(frozen=True)
class Preview:
    schedule: str
    timing: Timing
    doubts: Sequence[str] = ()
    sections: Sequence[Section] = ()


def preview(
    after: Definition, job: Job | None, changed: Sequence[Changed], *, policy: UpdatePolicy, now: datetime
) -> Preview:
    row = Job(
        name=after.name,
        schedule=after.schedule,
        config=dict(after.config),
        created_at=job.created_at if job else now,
    )
    found, zone = timing(row, now), zone_of(row)
    if found.problem:  # then nothing can be asked of the schedule
        return Preview(after.schedule, found)
    [diff] = connected().preview([after], policy=policy, now=now)
    tables = [
        changes_section("Definition", changed),
        *([pending_section(diff, zone)] if job else []),
        fires_section(found, zone),
    ]
    return Preview(after.schedule, found, doubts(row, now), tables)


def pending_section(diff: PendingDiff, zone: ZoneInfo | None) -> Section:
    fates = sorted((at, fate) for fate in FATES for at in getattr(diff, fate))
    rows: list[list[object]] = [
        [badge(fate, *FATES[fate]), instant(at, zone)] for at, fate in fates[:MOST_SHOWN]
    ]
    if len(fates) > MOST_SHOWN:
        rows.append(["…", f"and {len(fates) - MOST_SHOWN} more"])
    counts = ", ".join(f"{len(getattr(diff, fate))} {fate}" for fate in FATES)
    return Section(f"Planned occurrences: {counts}", ["what happens", "scheduled for"], rows)
