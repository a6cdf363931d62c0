"""A job's schedule of any kind may have a start and an end (ISO-4)."""

from datetime import timedelta

import pytest

from punctual import Context, Job
from punctual.occurrences.models import Cursor
from tests.harness import Harness

pytestmark = [pytest.mark.django_db, pytest.mark.req("ISO-4")]


def declare(harness: Harness, schedule: str, **config: object) -> None:
    job = Job("season", schedule, **config)  # type: ignore[arg-type]

    @job.task
    def step(ctx: Context) -> None: ...

    harness.sync()


def season(harness: Harness) -> str:
    begin, end = harness.now + timedelta(minutes=2), harness.now + timedelta(minutes=4)
    return f"{{from:{begin:%Y-%m-%dT%H:%M:%SZ}, until:{end:%Y-%m-%dT%H:%M:%SZ}}}"


@pytest.mark.parametrize(
    "text",
    ["posix:* * * * *", "kron:* * * * *", "iso8601:R/2026-01-01T00:00:00Z/PT1M", "* * * * *"],
)
def test_a_job_runs_from_the_first_to_the_last_instant_of_its_season(harness: Harness, text: str) -> None:
    harness.now = harness.now.replace(second=0, microsecond=0)
    began = harness.now
    declare(harness, f"{text} {season(harness)}")
    harness.live(minutes=6, step=5)
    runs = harness.occurrences("season")
    assert [row.scheduled_for - began for row in runs] == [timedelta(minutes=n) for n in (2, 3, 4)]
    assert harness.states("season") == ["completed"] * 3
    assert Cursor.objects.get().plan_at is None, "it is over"


def test_a_fixed_delay_runs_within_its_season_only(harness: Harness) -> None:
    harness.now = harness.now.replace(second=0, microsecond=0)
    began = harness.now
    declare(harness, f"delay:1m {season(harness)}")
    harness.live(minutes=8, step=5)
    runs = harness.occurrences("season")
    assert runs[0].scheduled_for == began + timedelta(minutes=2)
    assert len(runs) >= 2
    assert all(row.scheduled_for <= began + timedelta(minutes=4) for row in runs)


@pytest.mark.req("KRN-11")
def test_a_bounded_krontab_is_spread(harness: Harness) -> None:
    declare(harness, f"kron:* * * * * @win(after,30s) @seed(stable,salt=x) {season(harness)}")
    harness.tick()
    harness.pass_time(minutes=2)
    harness.tick()
    assert any(row.run_at > row.scheduled_for for row in harness.occurrences("season"))
