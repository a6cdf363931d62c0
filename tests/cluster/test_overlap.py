"""Runs that last longer than their job's interval, under every overlap policy at once."""

from collections import Counter
from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError, connections, transaction
from django.db.models import Count
from django.utils import timezone

from occurrences.models import Attempt, Occurrence
from occurrences.states import OCCURRENCE_ACTIVE
from tests.cluster.fleets import insert_jobs, owed
from tests.cluster.ledgers import instants, overlapping, rows, start_beats
from tests.cluster.processes import ALIAS, TOOLS, Cluster

pytestmark = [pytest.mark.cluster]

WINDOW = timedelta(seconds=20)
SECONDS = 2.5  # that a run takes; its job is due every second
EXCLUSIVE = ("skip", "queue", "queue_latest", "replace")
Span = tuple[datetime, datetime]


def named(policy: str) -> str:
    """No name is the beginning of another."""
    return f"{policy}-job"


def active_spans(policy: str, until: datetime) -> list[Span]:
    """From the moment a worker took an occurrence up to the moment it was over.

    Not from `fired_at`, which is the moment the beat's tick began: it may lie before the end of the
    occurrence in front, whose slot the tick found free a little later.
    """
    found = rows(named(policy)).values_list("started_at", "finished_at")
    return [(start, end or until) for start, end in found if start is not None]


def attempt_spans(policy: str, until: datetime) -> list[Span]:
    found = Attempt.objects.using(ALIAS).filter(run__occurrence__job__name=named(policy))
    return [(start, end or until) for start, end in found.values_list("started_at", "finished_at")]


def body_spans(cluster: Cluster, policy: str, until: datetime) -> list[Span]:
    """What the functions themselves wrote down when they began and ended."""
    sql = "SELECT run_id, source, at FROM cluster_app_effect WHERE source LIKE %s ORDER BY at"
    spans: dict[object, Span] = {}
    for run, source, at in cluster.query(sql, [f"{named(policy)}/%"]):
        spans[run] = (spans.get(run, (at, until))[0], until if source.endswith("begin") else at)
    return list(spans.values())


def crowded() -> Counter[str]:
    """Exclusive jobs with more than one active occurrence at this moment."""
    active = Occurrence.objects.using(ALIAS).filter(exclusive=True, state__in=OCCURRENCE_ACTIVE)
    counts = active.order_by().values_list("job__name").annotate(Count("id"))
    return Counter({job: count for job, count in counts if count > 1})


def assert_the_database_refuses_a_second_one(job: str) -> None:
    """Two pending rows made active by hand: the index stops the second, whatever the code does."""
    refused = pytest.raises(IntegrityError, match="one_active_occurrence_per_exclusive_job")
    with refused, transaction.atomic(using=ALIAS), connections[ALIAS].cursor() as cursor:
        cursor.execute(
            "UPDATE occurrences_occurrence SET state = 'dispatched', fired_at = now() WHERE id IN"
            " (SELECT o.id FROM occurrences_occurrence o JOIN jobs_job j ON j.id = o.job_id"
            "  WHERE j.name = %s AND o.state = 'pending' LIMIT 2)",
            [job],
        )


@pytest.mark.req("OCC-4")
@pytest.mark.req("OCC-5")
def test_slow_runs_never_overlap_unless_they_may_with_four_beats_and_four_workers(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    for _ in range(4):
        cluster.start_worker(concurrency=2)
    start_beats(cluster, 4)
    jobs = [
        insert_jobs(
            [named(policy)],
            "* * * * * *",
            function="slow",
            metadata={"seconds": str(SECONDS)},
            overlap=policy,
        )[0]
        for policy in (*EXCLUSIVE, "allow")
    ]
    start = jobs[-1].created_at
    end = timezone.now() + WINDOW
    seen: Counter[str] = Counter()

    def window_is_over() -> bool:
        seen.update(crowded())
        return timezone.now() > end

    cluster.wait_until(window_is_over, timeout=WINDOW.total_seconds() + 10, describe="the window to pass")
    assert not seen, "two active at the same moment"
    for policy in EXCLUSIVE:
        assert_the_database_refuses_a_second_one(named(policy))
    until = timezone.now()
    cluster.wait_until(
        lambda: not rows(end=until).filter(state="pending").exists(),
        timeout=30,
        describe="every instant so far disposed of",
    )

    until = timezone.now()
    for policy in EXCLUSIVE:
        assert overlapping(active_spans(policy, until)) == [], policy
        assert len(active_spans(policy, until)) >= 4, policy
    for policy in ("skip", "queue", "queue_latest"):
        assert overlapping(attempt_spans(policy, until)) == [], policy
        assert overlapping(body_spans(cluster, policy, until)) == [], policy
    assert overlapping(body_spans(cluster, "allow", until)), "the control: these do overlap"
    assert overlapping(active_spans("allow", until))

    for job in jobs:
        expected = {pair for pair in owed([job], start, end) if pair[1] > job.created_at}
        assert instants(rows(job.name, start=job.created_at, end=end)) == dict.fromkeys(expected, 1)
    reasons = {
        (policy, row.state): row.reason
        for policy in (*EXCLUSIVE, "allow")
        for row in rows(named(policy), end=end).filter(finished_at__isnull=False).order_by("scheduled_for")
    }
    assert reasons["skip", "skipped"] == "overlap"
    assert ("queue", "skipped") not in reasons
    assert reasons["queue_latest", "skipped"] == "superseded"
    assert reasons["replace", "canceled"] == "replaced"
    assert ("allow", "skipped") not in reasons
    assert cluster.log_lines("deadlock", "traceback") == []
