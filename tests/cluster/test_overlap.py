"""Runs that take longer than their job's interval, under every overlap policy."""

from collections import Counter
from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError, connections, transaction
from django.db.models import Count
from django.utils import timezone

from punctual.occurrences.models import Attempt, Occurrence
from punctual.occurrences.states import OCCURRENCE_ACTIVE
from tests.cluster.job_rows import insert_jobs, owed_instants
from tests.cluster.ledger_queries import count_instants, find_overlaps, occurrences_of, start_beats
from tests.cluster.processes import ALIAS, TOOLS, Cluster

pytestmark = [pytest.mark.cluster]

WINDOW = timedelta(seconds=20)
SECONDS = 2.5  # duration of a run; its job is due every second
EXCLUSIVE = ("skip", "queue", "queue_latest", "replace")
Span = tuple[datetime, datetime]


def job_name(policy: str) -> str:
    """A job name per policy; none is a prefix of another."""
    return f"{policy}-job"


def active_spans(policy: str, until: datetime) -> list[Span]:
    """Spans from the start of an occurrence to its end.

    `fired_at` is not used: it is the start of the beat's tick, which may be before the end of the previous
    occurrence, because the tick tests for a free slot later.
    """
    rows = occurrences_of(job_name(policy)).values_list("started_at", "finished_at")
    return [(start, end or until) for start, end in rows if start is not None]


def attempt_spans(policy: str, until: datetime) -> list[Span]:
    rows = Attempt.objects.using(ALIAS).filter(run__occurrence__job__name=job_name(policy))
    return [(start, end or until) for start, end in rows.values_list("started_at", "finished_at")]


def body_spans(cluster: Cluster, policy: str, until: datetime) -> list[Span]:
    """Spans noted by the functions themselves."""
    sql = "SELECT run_id, source, at FROM cluster_app_effect WHERE source LIKE %s ORDER BY at"
    spans: dict[object, Span] = {}
    for run, source, at in cluster.query(sql, [f"{job_name(policy)}/%"]):
        spans[run] = (spans.get(run, (at, until))[0], until if source.endswith("begin") else at)
    return list(spans.values())


def jobs_with_several_active() -> Counter[str]:
    """Exclusive jobs that have more than one active occurrence now."""
    active = Occurrence.objects.using(ALIAS).filter(exclusive=True, state__in=OCCURRENCE_ACTIVE)
    counts = active.order_by().values_list("job__name").annotate(Count("id"))
    return Counter({job: count for job, count in counts if count > 1})


def assert_the_database_refuses_a_second_one(job: str) -> None:
    """Make two pending rows active by SQL: the unique index refuses the second."""
    refused = pytest.raises(IntegrityError, match="one_active_occurrence_per_exclusive_job")
    with refused, transaction.atomic(using=ALIAS), connections[ALIAS].cursor() as cursor:
        cursor.execute(
            "UPDATE punctual_occurrence SET state = 'dispatched', fired_at = now() WHERE id IN"
            " (SELECT o.id FROM punctual_occurrence o JOIN punctual_job j ON j.id = o.job_id"
            "  WHERE j.name = %s AND o.state = 'pending' LIMIT 2)",
            [job],
        )


@pytest.mark.early
@pytest.mark.req("OCC-4")
@pytest.mark.req("OCC-5")
def test_slow_runs_overlap_only_if_allowed_with_four_beats_and_four_workers(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    for _ in range(4):
        cluster.start_worker(concurrency=2)
    start_beats(cluster, 4)
    jobs = [
        insert_jobs(
            [job_name(policy)],
            "* * * * * *",
            function="slow",
            metadata={"seconds": str(SECONDS)},
            overlap=policy,
        )[0]
        for policy in (*EXCLUSIVE, "allow")
    ]
    end = timezone.now() + WINDOW
    violations: Counter[str] = Counter()

    def window_is_over() -> bool:
        violations.update(jobs_with_several_active())
        return timezone.now() > end

    cluster.wait_until(window_is_over, timeout=WINDOW.total_seconds() + 10, describe="the window to pass")
    assert not violations, "an exclusive job had two active occurrences"
    for policy in EXCLUSIVE:
        assert_the_database_refuses_a_second_one(job_name(policy))
    until = timezone.now()
    cluster.wait_until(
        lambda: not occurrences_of(end=until).filter(state="pending").exists(),
        timeout=30,
        describe="no pending occurrence is left",
    )

    until = timezone.now()
    for policy in EXCLUSIVE:
        assert find_overlaps(active_spans(policy, until)) == [], policy
        assert len(active_spans(policy, until)) >= 4, policy
    for policy in ("skip", "queue", "queue_latest"):
        assert find_overlaps(attempt_spans(policy, until)) == [], policy
        assert find_overlaps(body_spans(cluster, policy, until)) == [], policy
    assert find_overlaps(body_spans(cluster, "allow", until)), "the control: these do overlap"
    assert find_overlaps(active_spans("allow", until))

    for job in jobs:
        assert count_instants(occurrences_of(job.name, start=job.created_at, end=end)) == dict.fromkeys(
            owed_instants([job], job.created_at, end), 1
        )
    reasons = {
        (policy, row.state): row.reason
        for policy in (*EXCLUSIVE, "allow")
        for row in occurrences_of(job_name(policy), end=end)
        .filter(finished_at__isnull=False)
        .order_by("scheduled_for")
    }
    assert reasons["skip", "skipped"] == "overlap"
    assert ("queue", "skipped") not in reasons
    assert reasons["queue_latest", "skipped"] == "superseded"
    assert reasons["replace", "canceled"] == "replaced"
    assert ("allow", "skipped") not in reasons
    assert cluster.log_lines("deadlock", "traceback") == []
