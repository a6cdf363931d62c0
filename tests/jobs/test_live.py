"""The schedule in the editor as it is being typed: in words, its fires, its mistakes and where they are."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from jobs.admin.live import FIRES, hinted, marked
from jobs.models import Job
from tests.console.pages import Viewer, pages, root, viewer
from tests.console.rows import make_job

__all__ = ["pages", "root", "viewer"]
pytestmark = [pytest.mark.django_db, pytest.mark.req("JOB-6")]

PATH = "/admin/jobs/job/schedule/"
NOW = datetime(2026, 3, 28, 12, tzinfo=UTC)


def row(schedule: str, **config: object) -> Job:
    return Job(name="etl", schedule=schedule, config=config, created_at=NOW)


def asked(client: Client, schedule: str, **fields: str) -> str:
    answer = client.post(PATH, {"schedule": schedule, **fields})
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_good_one_is_told_in_words_with_its_next_fires() -> None:
    hint = hinted(row("TZ=Europe/Berlin 30 2 * * *"), NOW)
    assert "02:30" in hint.timing.words
    assert len(hint.timing.fires) == FIRES
    assert hint.timing.fires[0].note, "the clocks change in that night"


def test_every_mistake_is_told_and_the_wrong_part_is_marked(root: Client) -> None:
    text = asked(root, "0 99 * * MONX")
    assert "0 <mark>99</mark> * * MONX" in text
    assert "0 99 * * <mark>MONX</mark>" in text


@pytest.mark.parametrize("schedule", ["posix: 61 * * * *", "kron: x", "iso8601: R/2026"])
def test_a_mistake_of_another_dialect_marks_nothing_it_does_not_mean(root: Client, schedule: str) -> None:
    text = asked(root, schedule)
    assert "mistakes" in text
    assert "<mark>" not in text


def test_the_zone_may_come_from_the_configuration(root: Client) -> None:
    assert "Asia/Tokyo" in asked(root, "0 2 * * *", config='{"timezone": "Asia/Tokyo"}')
    assert "UTC" in asked(root, "0 2 * * *", config='{"timezone": "Asia/To')


def test_intervals_count_from_the_jobs_creation(root: Client, now: datetime) -> None:
    job = make_job("etl", datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC))
    assert ":07 UTC" in asked(root, "@every 1h", job=str(job.pk))
    assert asked(root, "@every 1h", job="nonsense")


@pytest.mark.parametrize("text", ["", "<script>alert(1)</script>", "0 " * 5000, "\0", "日本語"])
def test_whatever_is_typed_it_answers(root: Client, text: str) -> None:
    assert "<script>" not in asked(root, text)


def test_it_is_for_those_who_may_edit_and_stores_nothing(viewer: Viewer) -> None:
    client = viewer("jobs.view_job")
    assert client.post(PATH, {"schedule": "@daily"}).status_code == 403
    assert client.get(PATH).status_code == 405
    assert not Job.objects.exists()


def test_a_part_is_marked_only_where_it_stands() -> None:
    assert marked("a b c", 2, "b") == "a <mark>b</mark> c"
    assert marked("a b c", 0, "b") == ""
    assert marked("a b c", None, "b") == ""
