"""A job is edited repeatedly while two real beats fire: the ledger equals the version history."""

import json
from collections import Counter
from datetime import datetime

import pytest
from django.utils import timezone

from punctual import schedules
from punctual.execution.models import Process
from punctual.jobs.models import JobVersion
from punctual.occurrences.models import Occurrence
from tests.cluster.processes import ALIAS, Cluster

pytestmark = [pytest.mark.cluster]

NAME = "edited"
EDITS = [
    ("* * * * * *", True),
    ("*/2 * * * * *", True),
    ("@every 1500ms", True),
    ("*/3 * * * * *", False),
    ("*/3 * * * * *", True),
    ("1-59/2 * * * * *", True),
    ("* * * * * *", True),
]


def apply(cluster: Cluster, schedule: str, *, enabled: bool) -> None:
    task = {"name": "step", "function": "tests.cluster.app.jobs.each_second", "config": {}}
    definition = {
        "name": NAME,
        "schedule": schedule,
        "config": {"overlap": "allow"},
        "metadata": {},
        "enabled": enabled,
        "tasks": [task],
    }
    path = cluster.folder / "jobs.json"
    path.write_text(json.dumps({"jobs": [definition]}))
    cluster.manage(
        "punctual", "jobs", "apply", str(path), "--reason", f"{schedule} {enabled}", "--author", "test"
    )


def owed(until: datetime) -> list[datetime]:
    versions = list(JobVersion.objects.using(ALIAS).filter(job__name=NAME).order_by("number"))
    ends = [row.created_at for row in versions[1:]] + [until]
    instants: list[datetime] = []
    for row, end in zip(versions, ends, strict=True):
        if row.after["enabled"]:
            schedule = schedules.parse(
                row.after["schedule"], reference=versions[0].created_at, trigger_id=NAME
            )
            instants += schedule.between(row.created_at, end)
    return instants


def rows(until: datetime) -> list[datetime]:
    occurrences = Occurrence.objects.using(ALIAS).filter(job__name=NAME, scheduled_for__lte=until)
    return list(occurrences.order_by("scheduled_for").values_list("scheduled_for", flat=True))


@pytest.mark.req("JOB-6")
@pytest.mark.req("OCC-2")
def test_every_edit_takes_effect_at_its_moment_with_two_beats_firing(cluster: Cluster) -> None:
    cluster.start_worker(concurrency=1)
    cluster.start_beat(), cluster.start_beat()
    cluster.wait_until(
        lambda: Process.objects.using(ALIAS).beats().count() == 2, timeout=60, describe="two beats signed in"
    )
    for schedule, enabled in EDITS:
        apply(cluster, schedule, enabled=enabled)
    until = timezone.now()
    cluster.wait_until(
        lambda: (
            not (
                Occurrence.objects.using(ALIAS)
                .filter(job__name=NAME, scheduled_for__lte=until, finished_at=None)
                .exists()
            )
        ),
        timeout=90,
        describe="every occurrence due so far has ended",
    )

    assert JobVersion.objects.using(ALIAS).filter(job__name=NAME).count() == len(EDITS)
    assert rows(until) == owed(until)
    states = Counter(
        Occurrence.objects.using(ALIAS)
        .filter(job__name=NAME, scheduled_for__lte=until)
        .values_list("state", flat=True)
    )
    assert set(states) == {"completed"}
