"""The hint of the editor: a schedule in words, its fires, its mistakes and their positions."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from punctual.console.definitions.schedule_hint import MAX_FIRES, make_hint, mark_mistake
from punctual.jobs.models import Job
from tests.console.fixtures import Viewer
from tests.console.ledger_rows import make_job

pytestmark = [pytest.mark.django_db, pytest.mark.req("JOB-6")]

PATH = "/admin/punctual/job/schedule/"
NOW = datetime(2026, 3, 28, 12, tzinfo=UTC)


def row(schedule: str, **config: object) -> Job:
    return Job(name="etl", schedule=schedule, config=config, created_at=NOW)


def request_hint(client: Client, schedule: str, **fields: str) -> str:
    answer = client.post(PATH, {"schedule": schedule, **fields})
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_valid_schedule_is_described_with_its_next_fires() -> None:
    hint = make_hint(row("TZ=Europe/Berlin 30 2 * * *"), NOW)
    assert "02:30" in hint.summary.words
    assert len(hint.summary.fires) == MAX_FIRES
    assert hint.summary.fires[0].note, "the clocks change in that night"


def test_every_mistake_is_listed_and_the_wrong_part_is_marked(root: Client) -> None:
    text = request_hint(root, "0 99 * * MONX")
    assert "0 <mark>99</mark> * * MONX" in text
    assert "0 99 * * <mark>MONX</mark>" in text


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize(
    "marked",
    ["posix: <mark>61 * * * *</mark>", "kron: <mark>x</mark>", "iso8601: <mark>R</mark>/2026"],
)
def test_a_mistake_after_a_prefix_is_marked_where_it_is(root: Client, marked: str) -> None:
    schedule = marked.replace("<mark>", "").replace("</mark>", "")
    assert marked in request_hint(root, schedule)


def test_the_zone_may_come_from_the_configuration(root: Client) -> None:
    assert "Asia/Tokyo" in request_hint(root, "0 2 * * *", config='{"timezone": "Asia/Tokyo"}')
    assert "UTC" in request_hint(root, "0 2 * * *", config='{"timezone": "Asia/To')


def test_intervals_count_from_the_jobs_creation(root: Client, now: datetime) -> None:
    job = make_job("etl", datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC))
    assert ":07 UTC" in request_hint(root, "@every 1h", job=str(job.pk))
    assert request_hint(root, "@every 1h", job="nonsense")


@pytest.mark.parametrize("text", ["", "<script>alert(1)</script>", "0 " * 5000, "\0", "日本語"])
def test_any_text_gets_an_answer(root: Client, text: str) -> None:
    assert "<script>" not in request_hint(root, text)


def test_the_hint_needs_the_permission_to_edit_and_stores_nothing(viewer: Viewer) -> None:
    client = viewer("punctual.view_job")
    assert client.post(PATH, {"schedule": "@daily"}).status_code == 403
    assert client.get(PATH).status_code == 405
    assert not Job.objects.exists()


def test_a_part_is_marked_only_at_its_position() -> None:
    assert mark_mistake("a b c", 2, "b") == "a <mark>b</mark> c"
    assert mark_mistake("a b c", 0, "b") == ""
    assert mark_mistake("a b c", None, "b") == ""


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0 9 * * FRY", "did you mean FRI?"),
        ("kron:0 9 * * * @only(dow=FRY)", "did you mean FRI?"),
        ("2027-01-01T09:00:00Z", "for one instant write @once 2027-01-01T09:00:00Z"),
    ],
)
def test_a_mistake_comes_with_what_its_author_probably_meant(now: datetime, text: str, hint: str) -> None:
    (mistake,) = make_hint(Job(name="job", schedule=text, config={}, created_at=now), now).mistakes
    assert hint in mistake.message
