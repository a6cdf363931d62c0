"""Sweeps started by an operator: previewed, each with its permission, a reason and an audit entry."""

from datetime import datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.test import Client

from punctual.jobs.clock import database_now
from punctual.jobs.models import Job
from punctual.occurrences.models import Attempt, Cursor, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.operations.audit import Entry
from punctual.operations.models import Audit, AuditedAction
from punctual.recovery.requester import Requester
from tests.console.acting.test_range_actions import counted, limit_actions
from tests.console.fixtures import Viewer, page, queries
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task
from tests.execution.conftest import broker_down, queue
from tests.harness import Harness
from tests.occurrences.factories import a_run, an_attempt, saved

__all__ = ["queue"]

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2"), pytest.mark.req("REC-3")]

S = OccurrenceState
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
PERMISSIONS = {
    "recover": "punctual.recover_job",
    "reap": "punctual.reap_run",
    "resend": "punctual.resend_run",
    "settle": "punctual.settle_occurrence",
}
REASON = {"reason": "the host died"}


@pytest.fixture(autouse=True)
def empty_queue(queue: Harness) -> Harness:
    return queue


@pytest.fixture
def backlog() -> dict[str, Occurrence]:
    """One row for each kind of backlog, an hour old."""
    at = database_now() - HOUR
    jobs = {name: make_job(name, at) for name in ("late", "lost", "unsent", "over")}
    found = {
        "late": make_occurrence(jobs["late"], at, S.PENDING, late_at=at + MINUTE),
        "lost": make_occurrence(jobs["lost"], at, S.RUNNING),
        "unsent": make_occurrence(jobs["unsent"], at, S.DISPATCHED),
        "over": make_occurrence(jobs["over"], at, S.FAILED, finalized_at=None),
    }
    held = saved(a_run(found["lost"], make_task(jobs["lost"]), RunState.RUNNING))
    saved(an_attempt(held))
    saved(a_run(found["unsent"], make_task(jobs["unsent"])))
    Cursor.objects.update(plan_at=at + 9 * HOUR, planned_until=at + 9 * HOUR)
    return found


def path(name: str) -> str:
    return f"/admin/chores/{name}/"


def entries() -> list[tuple[str, int, str, str]]:
    rows = Audit.objects.order_by("id")
    return list(rows.values_list("action", "count", "requested_by", "reason"))


def test_the_recovery_page_counts_the_backlog_of_each_sweep(
    root: Client, backlog: dict[str, Occurrence]
) -> None:
    text = page(root, "/admin/chores/")
    for text_part in (
        "occurrences that were not fired in time: <b>1</b>",
        "runs whose worker is silent: <b>1</b>",
        "messages the broker never confirmed: <b>1</b>",
        "occurrences that ended and whose hooks were not called: <b>1</b>",
    ):
        assert text_part in text
    assert all(f'href="{path(name)}"' in text for name in PERMISSIONS)
    assert 'href="/admin/chores/"' in page(root, "/admin/"), "the sidebar links to it"


def test_without_a_backlog_the_page_offers_nothing(root: Client) -> None:
    text = page(root, "/admin/chores/")
    assert text.count(">nothing</span>") == len(PERMISSIONS)
    assert not any(f'href="{path(name)}"' in text for name in PERMISSIONS)
    for name in PERMISSIONS:
        previewed = page(root, path(name))
        assert counted(previewed) == "0"
        assert "There is nothing to do" in previewed
        assert 'id="id_reason"' not in previewed
        done = root.post(path(name), REASON, follow=True).content.decode()
        assert "nothing to do: already handled" in done
    assert entries() == []


@pytest.mark.parametrize("name", PERMISSIONS)
def test_a_preview_changes_nothing(root: Client, backlog: dict[str, Occurrence], name: str) -> None:
    before = list(Occurrence.objects.order_by("id").values()), list(TaskRun.objects.order_by("id").values())
    text = page(root, path(name))
    assert counted(text) == ("3" if name == "reap" else "1")
    assert "Nothing has happened yet" in text
    assert before == (
        list(Occurrence.objects.order_by("id").values()),
        list(TaskRun.objects.order_by("id").values()),
    )
    assert entries() == []


@pytest.mark.req("REC-1")
def test_late_occurrences_are_caught_up(
    root: Client, backlog: dict[str, Occurrence], admin_user: User
) -> None:
    done = root.post(path("recover"), REASON, follow=True).content.decode()
    assert "1 run late" in done
    backlog["late"].refresh_from_db()
    assert (backlog["late"].cause, backlog["late"].late_at) == ("recovery", None)
    assert entries() == [("recover", 1, "admin", "the host died")]
    assert LogEntry.objects.get(user=admin_user).change_message == "the host died"


def test_abandoned_runs_are_taken_back(root: Client, backlog: dict[str, Occurrence]) -> None:
    done = root.post(path("reap"), REASON, follow=True).content.decode()
    for text_part in ("1 taken back from silent workers", "1 sent again", "1 handed to a worker"):
        assert text_part in done
    assert Attempt.objects.get().state == "lost"
    assert entries() == [("reap", 3, "admin", "the host died")]


def test_an_unconfirmed_message_is_sent_again(
    root: Client, backlog: dict[str, Occurrence], queue: Harness
) -> None:
    assert "1 sent again" in root.post(path("resend"), REASON, follow=True).content.decode()
    assert queue.lose_messages() == 1
    assert Attempt.objects.get().state == "running", "nothing else was done"
    assert entries() == [("resend", 1, "admin", "the host died")]
    assert counted(page(root, path("resend"))) == "0"


def test_an_ended_occurrence_is_settled(root: Client, backlog: dict[str, Occurrence], queue: Harness) -> None:
    assert "1 handed to a worker" in root.post(path("settle"), REASON, follow=True).content.decode()
    assert queue.take() == ("punctual.settle", str(backlog["over"].id))
    assert entries() == [("settle", 1, "admin", "the host died")]


@pytest.mark.parametrize("name", ["resend", "settle"])
def test_a_broker_that_refuses_is_a_message_and_no_server_error(
    root: Client, backlog: dict[str, Occurrence], name: str
) -> None:
    with broker_down():
        assert root.get(path(name)).status_code == 200
        done = root.post(path(name), REASON, follow=True).content.decode()
    assert "Messages the broker refused: 1" in done
    assert entries() == []


@pytest.mark.parametrize("name", PERMISSIONS)
def test_each_sweep_needs_its_own_permission(
    viewer: Viewer, backlog: dict[str, Occurrence], name: str
) -> None:
    others = [permission for other, permission in PERMISSIONS.items() if other != name]
    client = viewer("punctual.view_occurrence", *others)
    text = page(client, "/admin/chores/")
    assert f'href="{path(name)}"' not in text
    assert all(f'href="{path(other)}"' in text for other in PERMISSIONS if other != name)
    assert client.get(path(name)).status_code == client.post(path(name), REASON).status_code == 403
    assert entries() == []


def test_the_page_needs_permission_to_view_occurrences(viewer: Viewer) -> None:
    assert viewer("punctual.view_job").get("/admin/chores/").status_code == 403


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize(("group", "status"), [("read-only", 403), ("operators", 200)])
def test_operators_may_preview_and_readers_may_not(group: str, status: int) -> None:
    user = User.objects.create_user("member", password=None, is_staff=True)
    user.groups.add(Group.objects.get(name=f"Punctual: {group}"))
    client = Client()
    client.force_login(user)
    assert {client.get(path(name)).status_code for name in PERMISSIONS} == {status}
    assert client.get("/admin/chores/").status_code == 200


@pytest.mark.req("REC-1")
def test_one_job_is_caught_up_from_its_page(root: Client, backlog: dict[str, Occurrence]) -> None:
    job, other = backlog["late"].job, make_job("other", database_now() - HOUR)
    make_occurrence(other, database_now() - HOUR, S.PENDING, late_at=database_now() - MINUTE)
    Cursor.objects.update(plan_at=database_now() + HOUR)
    address = f"/admin/job/{job.pk}/recover/"
    assert f'href="{address}"' in page(root, f"/admin/punctual/job/{job.pk}/change/")
    text = page(root, address)
    assert counted(text) == "1"
    assert "occurrences that were not fired in time</dt><dd>1<" in text
    done = root.post(address, REASON, follow=True).content.decode()
    assert "Catch up, late: 1 run late." in done
    assert set(Occurrence.objects.filter(job=other).values_list("cause", flat=True)) == {"schedule"}
    assert Audit.objects.get().details["job"] == "late"
    assert "There is nothing to do" in page(root, address)


def test_an_unknown_sweep_is_not_found(root: Client) -> None:
    assert root.get(path("explode")).status_code == 404


def test_the_limit_of_one_request_leaves_the_rest(
    root: Client, backlog: dict[str, Occurrence], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make_occurrence(backlog["unsent"].job, database_now() - 2 * HOUR, S.DISPATCHED)
    saved(a_run(one, backlog["unsent"].runs.get().task))
    limit_actions(monkeypatch, 1)
    monkeypatch.setattr("punctual.recovery.sweeper.resend.resend.__kwdefaults__", {"limit": 1})
    monkeypatch.setattr("punctual.operations.sweep_backlog.MAX_COUNTED", 1)
    monkeypatch.setattr("punctual.operations.sweep_actions.MAX_COUNTED", 1)
    assert counted(page(root, path("resend"))) == "at least 1"
    assert "There are more" in root.post(path("resend"), REASON, follow=True).content.decode()
    assert "There are more" not in root.post(path("resend"), REASON, follow=True).content.decode()


def test_the_page_takes_the_same_queries_for_many_rows(
    root: Client, backlog: dict[str, Occurrence], now: datetime
) -> None:
    few = len(queries(root, "/admin/chores/"))
    for number in range(20):
        job = make_job(f"job {number}", now - HOUR)
        make_occurrence(job, now - HOUR, S.PENDING, late_at=now - MINUTE)
        one = make_occurrence(job, now - 2 * HOUR, S.DISPATCHED)
        make_run(one, make_task(job), RunState.SCHEDULED, dispatched_at=None)
    assert Job.objects.count() > 20
    assert len(queries(root, "/admin/chores/")) == few


def test_an_audit_entry_shows_its_changes_by_kind_and_whether_it_is_finished(
    root: Client, now: datetime
) -> None:
    entry = Entry(
        AuditedAction.RECOVER, Requester("ada", "the beats were off"), now=now, details={"jobs": "all"}
    )
    entry.add(3, missed=2, recovered=1)
    text = page(root, "/admin/punctual/audit/")
    assert "catch-up" in text
    assert "not finished" in text
    detail = page(root, f"/admin/punctual/audit/{Audit.objects.get().pk}/change/")
    assert detail.index("jobs&quot;: &quot;all") < detail.index("missed&quot;: 2")
    entry.finish()
    assert "not finished" not in page(root, "/admin/punctual/audit/")
