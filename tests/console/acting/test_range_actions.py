"""Backfill, replay of a range and prune: previewed, restricted by permission, executed once, logged."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.test import Client

from punctual.jobs.clock import database_now
from punctual.jobs.models import Job
from punctual.occurrences.models import Cause, Cursor, Occurrence
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.operations.action_registry import BY_NAME
from punctual.operations.models import Audit
from punctual.recovery.models import PruneRound
from tests.console.fixtures import Viewer, page, queries
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

S = OccurrenceState
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
START = datetime(2026, 1, 5, tzinfo=UTC)
RIGHTS = {
    "backfill": "punctual.backfill_job",
    "replay": "punctual.replay_occurrence",
    "prune": "punctual.prune_job",
    "recover": "punctual.recover_job",
}
SPAN = {"since": "2026-01-05T00:00", "until": "2026-01-05T05:00"}


@pytest.fixture
def job() -> Job:
    """An hourly job with ten occurrences, long past: two failed, one is running."""
    job = make_job("etl", START - DAY, schedule="0 * * * *", config={"retention": "30d"})
    task = make_task(job)
    for hour in range(2, 12):
        state = {3: S.FAILED, 4: S.FAILED, 5: S.RUNNING}.get(hour, S.COMPLETED)
        one = make_occurrence(job, START + hour * HOUR, state, finalized_at=START)
        run = {S.FAILED: RunState.DLQ, S.RUNNING: RunState.SCHEDULED}.get(state, RunState.SUCCESS)
        make_run(one, task, run)
    Cursor.objects.update_or_create(job=job, defaults={"settled_until": START + 12 * HOUR})
    return job


def path(job: Job | UUID, name: str) -> str:
    return f"/admin/job/{getattr(job, 'pk', job)}/{name}/"


def preview(client: Client, job: Job, name: str, **values: str) -> str:
    response = client.get(path(job, name), values)
    assert response.status_code == 200
    return response.content.decode()


def counted(text: str) -> str:
    found = re.search(r"data-count>([^<]+)<", text)
    assert found is not None, "the page has no preview"
    return found[1]


def hidden_fields(text: str) -> dict[str, str]:
    """The hidden fields that the confirmation of a preview posts."""
    form = text[text.index('<form method="post"', text.index("data-count")) :]
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))


def confirm(client: Client, job: Job, name: str, text: str, **extra: str) -> str:
    response = client.post(path(job, name), hidden_fields(text) | {"reason": "because"} | extra, follow=True)
    return response.content.decode()


def limit_actions(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    limited = {key: replace(action, limit=limit) for key, action in BY_NAME.items()}
    monkeypatch.setattr("punctual.operations.action_registry.BY_NAME", limited)


def logged() -> list[tuple[str, int, str]]:
    return list(Audit.objects.order_by("id").values_list("action", "count", "reason"))


@pytest.mark.req("REC-5")
def test_a_backfill_previews_new_and_existing_instants_and_creates_them_once_confirmed(
    root: Client, job: Job, admin_user: User
) -> None:
    text = preview(root, job, "backfill", **SPAN)
    assert counted(text) == "2"
    assert "Nothing has happened yet" in text
    assert re.search(r"exist already and are left alone</dt><dd>4<", text)
    assert "2026-01-05 02:00:00" in text, "the existing ones are listed"
    assert not Occurrence.objects.filter(cause=Cause.BACKFILL).exists()
    done = confirm(root, job, "backfill", text, reason="new data")
    assert "2 occurrences" in done
    made = Occurrence.objects.filter(cause=Cause.BACKFILL).order_by("scheduled_for")
    assert [row.scheduled_for for row in made] == [START, START + HOUR]
    assert {(row.requested_by, row.request_reason) for row in made} == {("admin", "new data")}
    assert logged() == [("backfill", 2, "new data")]
    assert LogEntry.objects.get(user=admin_user).change_message == "new data"
    confirm(root, job, "backfill", text)
    assert made.count() == 2, "confirmed twice, created once"


@pytest.mark.req("REC-5")
def test_a_backfill_of_pruned_instants_warns_that_they_would_run_again(root: Client, job: Job) -> None:
    assert "are pruned" not in preview(root, job, "backfill", **SPAN)
    confirm(root, job, "prune", preview(root, job, "prune"))
    assert "are pruned. They would run again" in preview(root, job, "backfill", **SPAN)


@pytest.mark.req("REC-4")
@pytest.mark.parametrize(("part", "count"), [("all", 3), ("failed", 2)])
def test_a_range_is_replayed_whole_or_only_where_it_failed(
    root: Client, job: Job, admin_user: User, part: str, count: int
) -> None:
    text = preview(root, job, "replay", **SPAN, part=part)
    assert counted(text) == str(count)
    assert not Occurrence.objects.filter(cause=Cause.REPLAY).exists()
    late = Occurrence.objects.filter(state=S.RUNNING)
    late.update(state=S.COMPLETED, finished_at=database_now() + DAY, holds_slot=False)
    confirm(root, job, "replay", text, reason="again")
    made = Occurrence.objects.filter(cause=Cause.REPLAY).order_by("run_at")
    assert len(made) == count, "occurrences that ended after the preview are left out"
    assert [row.scheduled_for for row in made] == sorted(row.scheduled_for for row in made)
    assert logged() == [("replay", count, "again")]
    assert LogEntry.objects.filter(user=admin_user).count() == 1
    confirm(root, job, "replay", text)
    assert made.count() == count, "a double click replays once"


@pytest.mark.req("REC-4")
def test_a_second_replay_leaves_out_the_first_and_what_it_repaired(root: Client, job: Job) -> None:
    confirm(root, job, "replay", preview(root, job, "replay", **SPAN, part="failed"))
    assert counted(preview(root, job, "replay", **SPAN, part="failed")) == "2", "the replays have not run yet"
    Occurrence.objects.filter(cause=Cause.REPLAY).update(state=S.COMPLETED, finished_at=START, fired_at=START)
    assert counted(preview(root, job, "replay", **SPAN, part="failed")) == "0"
    assert counted(preview(root, job, "replay", **SPAN, part="all")) == "3"


@pytest.mark.req("REC-6")
def test_a_job_is_pruned_by_its_retention_after_a_preview(root: Client, job: Job, admin_user: User) -> None:
    text = preview(root, job, "prune")
    assert counted(text) == "7", "neither the running one nor dead letters"
    assert Occurrence.objects.count() == 10
    assert "7 occurrences deleted" in confirm(root, job, "prune", text, reason="full disk")
    assert set(Occurrence.objects.values_list("state", flat=True)) == {S.RUNNING, S.FAILED}
    assert logged() == [("prune", 7, "full disk")]
    assert LogEntry.objects.get(user=admin_user).change_message == "full disk"


@pytest.mark.req("REC-6")
def test_all_jobs_are_pruned_from_the_list_of_occurrences(root: Client, job: Job) -> None:
    assert 'href="/admin/prune/"' in page(root, "/admin/punctual/occurrence/")
    make_occurrence(make_job("ever", START), START, finalized_at=START)
    text = page(root, "/admin/prune/")
    assert counted(text) == "7"
    response = root.post("/admin/prune/", {"reason": "spring"}, follow=True)
    assert "7 occurrences deleted" in response.content.decode()
    assert Occurrence.objects.count() == 4
    assert logged() == [("prune", 7, "spring")]


@pytest.mark.parametrize("name", RIGHTS)
def test_each_action_is_offered_and_allowed_only_with_its_permission(
    viewer: Viewer, job: Job, name: str
) -> None:
    others = [right for other, right in RIGHTS.items() if other != name]
    client = viewer("punctual.view_job", "punctual.view_occurrence", *others)
    shown = page(client, f"/admin/punctual/job/{job.pk}/change/")
    assert path(job, name) not in shown
    assert all(path(job, other) in shown for other in RIGHTS if other != name)
    assert client.get(path(job, name)).status_code == 403
    assert client.post(path(job, name), SPAN | {"part": "all"}).status_code == 403
    assert Occurrence.objects.count() == 10


def test_pruning_all_needs_its_permission(viewer: Viewer, job: Job) -> None:
    client = viewer("punctual.view_job", "punctual.view_occurrence", "punctual.replay_occurrence")
    assert "/admin/prune/" not in page(client, "/admin/punctual/occurrence/")
    assert client.get("/admin/prune/").status_code == client.post("/admin/prune/").status_code == 403


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize(("group", "status"), [("read-only", 403), ("operators", 200)])
def test_operators_may_preview_and_readers_may_not(job: Job, group: str, status: int) -> None:
    user = User.objects.create_user("member", password=None, is_staff=True)
    user.groups.add(Group.objects.get(name=f"Punctual: {group}"))
    client = Client()
    client.force_login(user)
    paths = [*(path(job, name) for name in RIGHTS), "/admin/prune/"]
    assert {client.get(one).status_code for one in paths} == {status}


@pytest.mark.parametrize("name", ["backfill", "replay"])
@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"since": "2026-01-05T05:00", "until": "2026-01-05T00:00"}, "expected an instant up to the end"),
        ({"since": "2999-01-01T00:00", "until": "2999-01-02T00:00"}, "expected an instant in the past"),
        ({"since": "soon", "until": "2026-01-05T00:00"}, "from=&#x27;soon&#x27;: expected a date and a time"),
        ({"since": "2026-01-05T00:00", "until": ""}, "to=&#x27;&#x27;: expected a date and a time"),
        ({"since": "0001-01-01T00:00", "until": "2026-01-05T00:00"}, "expected an instant from 1970"),
        ({"since": "2026-01-05T00:00", "until": "9999-12-31T23:59:59-14:00"}, "expected a date and a time"),
    ],
)
def test_an_invalid_range_is_refused_with_field_value_and_bound(
    root: Client, job: Job, name: str, values: dict[str, str], problem: str
) -> None:
    text = preview(root, job, name, **values, part="all")
    assert problem in text
    assert "data-count>" not in text
    response = root.post(path(job, name), values | {"part": "all"}, follow=True)
    assert problem.rsplit("expected", maxsplit=1)[-1] in response.content.decode()
    assert Occurrence.objects.count() == 10


@pytest.mark.parametrize("name", ["backfill", "replay"])
def test_an_empty_range_has_a_hint_and_no_button(root: Client, job: Job, name: str) -> None:
    values = {"since": "2026-01-05T00:10", "until": "2026-01-05T00:20", "part": "all"}
    text = preview(root, job, name, **values)
    assert counted(text) == "0"
    assert "choose another range" in text
    assert 'id="id_reason"' not in text


def test_a_local_time_that_does_not_exist_is_refused_and_offsets_are_understood(root: Client) -> None:
    berlin = make_job("berlin", START, schedule="TZ=Europe/Berlin 0 * * * *")
    values = {"since": "2026-03-29T02:30", "until": "2026-03-29T05:00"}
    assert "no such time in Europe/Berlin" in preview(root, berlin, "backfill", **values)
    make_occurrence(berlin, datetime(2026, 1, 5, 11, tzinfo=UTC))
    for since, until, count in (
        ("2026-01-05T11:30", "2026-01-05T12:30", "1"),
        ("2026-01-05T10:30+00:00", "2026-01-05T11:30+00:00", "1"),
        ("2026-01-05T10:30", "2026-01-05T11:30", "0"),
    ):
        assert counted(preview(root, berlin, "replay", since=since, until=until, part="all")) == count


def test_the_limit_of_one_request_refuses_a_range_and_stops_pruning(
    root: Client, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_actions(monkeypatch, 3)
    assert "names more than 3 instants" in preview(root, job, "backfill", **SPAN)
    assert "holds more than 3 occurrences" in preview(root, job, "replay", **SPAN, part="all")
    assert counted(preview(root, job, "prune")) == "at least 1", "two of the three oldest are dead letters"
    text = page(root, "/admin/prune/")
    assert counted(text) == "at least 1"
    assert "There are more" in confirm(root, job, "prune", preview(root, job, "prune"))
    assert "There are more" in root.post("/admin/prune/", {"reason": "full"}, follow=True).content.decode()


def test_pruning_all_jobs_reads_them_page_by_page(
    root: Client, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        make_job(f"job {number}", START)
    monkeypatch.setattr("punctual.operations.prune_actions.JOBS_PER_PAGE", 1)
    text = page(root, "/admin/prune/")
    assert counted(text).endswith("7")
    assert (
        "7 occurrences deleted"
        in root.post("/admin/prune/", {"reason": "full"}, follow=True).content.decode()
    )
    assert counted(page(root, "/admin/prune/")) == "0"


def test_a_job_without_retention_has_a_hint(root: Client) -> None:
    text = preview(root, make_job("ever", START), "prune")
    assert counted(text) == "0"
    assert "keeps everything" in text


def test_removed_jobs_unknown_actions_and_an_empty_database_are_answered(root: Client, job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(removed_at=START)
    assert "not planned by beats" in root.get(path(job, "replay"), follow=True).content.decode()
    assert counted(preview(root, job, "prune")) == "7"
    assert root.get(path(job, "explode")).status_code == 404
    Occurrence.objects.all().delete()
    assert counted(page(root, "/admin/prune/")) == "0"
    Job.objects.all().delete()
    assert "No job has a retention" in page(root, "/admin/prune/")
    assert root.get(path(job, "prune")).status_code == 404


def test_an_invalid_schedule_is_a_message_and_no_server_error(root: Client, job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(schedule="99 * * * *")
    text = preview(root, job, "backfill", **SPAN)
    assert "99" in text
    assert "data-count>" not in text
    Job.objects.filter(pk=job.pk).update(schedule="delay:5m")
    assert "names no past instants" in preview(root, job, "backfill", **SPAN)


def test_a_preview_takes_the_same_queries_for_many_rows(root: Client, job: Job) -> None:
    def cost(name: str, **values: str) -> int:
        query = "&".join(f"{key}={value}" for key, value in values.items())
        return len(queries(root, f"{path(job, name)}?{query}"))

    cases: dict[str, dict[str, Any]] = {"backfill": SPAN, "replay": SPAN | {"part": "failed"}, "prune": {}}
    few = {name: cost(name, **values) for name, values in cases.items()} | {
        "all": len(queries(root, "/admin/prune/"))
    }
    for number in range(20):
        other = make_job(f"job {number}", START, config={"retention": "1d"})
        make_occurrence(other, START, finalized_at=START)
        make_occurrence(job, START - number * HOUR - timedelta(minutes=1), finalized_at=START)
    many = {name: cost(name, **values) for name, values in cases.items()} | {
        "all": len(queries(root, "/admin/prune/"))
    }
    assert many == few
    assert not PruneRound.objects.exists(), "a preview starts no round"
