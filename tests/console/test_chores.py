"""The safety net's chores in the admin: counted first, each with its permission, a reason and an entry."""

from datetime import datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.test import Client

from jobs.clock import database_now
from jobs.models import Job
from occurrences.models import Attempt, Cursor, Occurrence, TaskRun
from occurrences.states import OccurrenceState, RunState
from recovery.audit import Asked, Entry
from recovery.models import Action, Audit
from tests.console.pages import Viewer, page, queries
from tests.console.rows import make_job, make_occurrence, make_run, make_task
from tests.console.test_doors import counted
from tests.execution.conftest import broker_down, queue
from tests.harness import Harness
from tests.occurrences.ledger import a_run, an_attempt, saved

__all__ = ["queue"]

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2"), pytest.mark.req("REC-3")]

S = OccurrenceState
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
RIGHTS = {
    "recover": "recovery.recover_job",
    "reap": "recovery.reap_run",
    "resend": "recovery.resend_run",
    "settle": "recovery.settle_occurrence",
}
WHY = {"reason": "the host died"}


@pytest.fixture(autouse=True)
def empty_queue(queue: Harness) -> Harness:
    return queue


@pytest.fixture
def trouble() -> dict[str, Occurrence]:
    """One of each kind of trouble, an hour old."""
    at = database_now() - HOUR
    jobs = {name: make_job(name, at) for name in ("late", "lost", "unsent", "over")}
    Cursor.objects.update(plan_at=at + 9 * HOUR, planned_until=at + 9 * HOUR)
    found = {
        "late": make_occurrence(jobs["late"], at, S.PENDING, late_at=at + MINUTE),
        "lost": make_occurrence(jobs["lost"], at, S.RUNNING),
        "unsent": make_occurrence(jobs["unsent"], at, S.DISPATCHED),
        "over": make_occurrence(jobs["over"], at, S.FAILED, finalized_at=None),
    }
    held = saved(a_run(found["lost"], make_task(jobs["lost"]), RunState.RUNNING))
    saved(an_attempt(held))
    saved(a_run(found["unsent"], make_task(jobs["unsent"])))
    return found


def path(name: str) -> str:
    return f"/admin/chores/{name}/"


def entries() -> list[tuple[str, int, str, str]]:
    rows = Audit.objects.order_by("id")
    return list(rows.values_list("action", "count", "requested_by", "reason"))


def test_one_page_tells_what_waits_for_each(root: Client, trouble: dict[str, Occurrence]) -> None:
    text = page(root, "/admin/chores/")
    for told in (
        "occurrences nobody fired in time: <b>1</b>",
        "runs whose worker fell silent: <b>1</b>",
        "messages the broker never confirmed: <b>1</b>",
        "occurrences that ended, and whose hooks nobody called: <b>1</b>",
    ):
        assert told in text
    assert all(f'href="{path(name)}"' in text for name in RIGHTS)
    assert 'href="/admin/chores/"' in page(root, "/admin/"), "it is in the sidebar"


def test_with_nothing_to_do_it_says_so_and_offers_nothing(root: Client) -> None:
    text = page(root, "/admin/chores/")
    assert text.count(">nothing</span>") == len(RIGHTS)
    assert not any(f'href="{path(name)}"' in text for name in RIGHTS)
    for name in RIGHTS:
        asked = page(root, path(name))
        assert counted(asked) == "0"
        assert "There is nothing to do" in asked
        assert 'id="id_reason"' not in asked
        done = root.post(path(name), WHY, follow=True).content.decode()
        assert "nothing was left to do" in done
    assert entries() == []


@pytest.mark.parametrize("name", RIGHTS)
def test_looking_changes_nothing(root: Client, trouble: dict[str, Occurrence], name: str) -> None:
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
def test_what_is_late_is_caught_up(root: Client, trouble: dict[str, Occurrence], admin_user: User) -> None:
    done = root.post(path("recover"), WHY, follow=True).content.decode()
    assert "1 run after all" in done
    trouble["late"].refresh_from_db()
    assert (trouble["late"].cause, trouble["late"].late_at) == ("recovery", None)
    assert entries() == [("recover", 1, "admin", "the host died")]
    assert LogEntry.objects.get(user=admin_user).change_message == "the host died"


def test_what_was_abandoned_is_taken_back(root: Client, trouble: dict[str, Occurrence]) -> None:
    done = root.post(path("reap"), WHY, follow=True).content.decode()
    for told in ("1 taken back from silent workers", "1 sent again", "1 handed to a worker"):
        assert told in done
    assert Attempt.objects.get().state == "lost"
    assert entries() == [("reap", 3, "admin", "the host died")]


def test_a_message_is_sent_again(root: Client, trouble: dict[str, Occurrence], queue: Harness) -> None:
    assert "1 sent again" in root.post(path("resend"), WHY, follow=True).content.decode()
    assert queue.lose_messages() == 1
    assert Attempt.objects.get().state == "running", "nothing else was done"
    assert entries() == [("resend", 1, "admin", "the host died")]
    assert counted(page(root, path("resend"))) == "0"


def test_what_is_over_is_settled(root: Client, trouble: dict[str, Occurrence], queue: Harness) -> None:
    assert "1 handed to a worker" in root.post(path("settle"), WHY, follow=True).content.decode()
    assert queue.take() == ("punctual.settle", str(trouble["over"].id))
    assert entries() == [("settle", 1, "admin", "the host died")]


@pytest.mark.parametrize("name", ["resend", "settle"])
def test_a_broker_that_refuses_is_an_answer_and_no_error(
    root: Client, trouble: dict[str, Occurrence], name: str
) -> None:
    with broker_down():
        assert root.get(path(name)).status_code == 200
        done = root.post(path(name), WHY, follow=True).content.decode()
    assert "Messages the broker did not take: 1" in done
    assert entries() == []


@pytest.mark.parametrize("name", RIGHTS)
def test_each_needs_its_own_permission(viewer: Viewer, trouble: dict[str, Occurrence], name: str) -> None:
    others = [right for other, right in RIGHTS.items() if other != name]
    client = viewer("occurrences.view_occurrence", *others)
    text = page(client, "/admin/chores/")
    assert f'href="{path(name)}"' not in text
    assert all(f'href="{path(other)}"' in text for other in RIGHTS if other != name)
    assert client.get(path(name)).status_code == client.post(path(name), WHY).status_code == 403
    assert entries() == []


def test_the_page_needs_the_right_to_look(viewer: Viewer) -> None:
    assert viewer("jobs.view_job").get("/admin/chores/").status_code == 403


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize(("group", "status"), [("read-only", 403), ("operators", 200)])
def test_the_groups_know_the_chores(group: str, status: int) -> None:
    user = User.objects.create_user("somebody", password=None, is_staff=True)
    user.groups.add(Group.objects.get(name=f"Punctual: {group}"))
    client = Client()
    client.force_login(user)
    assert {client.get(path(name)).status_code for name in RIGHTS} == {status}
    assert client.get("/admin/chores/").status_code == 200


@pytest.mark.req("REC-1")
def test_one_job_is_caught_up_from_its_page(root: Client, trouble: dict[str, Occurrence]) -> None:
    job, other = trouble["late"].job, make_job("other", database_now() - HOUR)
    make_occurrence(other, database_now() - HOUR, S.PENDING, late_at=database_now() - MINUTE)
    Cursor.objects.update(plan_at=database_now() + HOUR)
    address = f"/admin/job/{job.pk}/recover/"
    assert f'href="{address}"' in page(root, f"/admin/jobs/job/{job.pk}/change/")
    text = page(root, address)
    assert counted(text) == "1"
    assert "occurrences nobody fired in time</dt><dd>1<" in text
    done = root.post(address, WHY, follow=True).content.decode()
    assert "Catch up, late: 1 run after all." in done
    assert set(Occurrence.objects.filter(job=other).values_list("cause", flat=True)) == {"schedule"}
    assert Audit.objects.get().details["job"] == "late"
    assert "There is nothing to do" in page(root, address)


def test_what_is_unknown_is_not_found(root: Client) -> None:
    assert root.get(path("explode")).status_code == 404


def test_more_than_a_request_may_do_is_done_in_part(
    root: Client, trouble: dict[str, Occurrence], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make_occurrence(trouble["unsent"].job, database_now() - 2 * HOUR, S.DISPATCHED)
    saved(a_run(one, trouble["unsent"].runs.get().task))
    monkeypatch.setattr("console.chores.MOST", 1)
    monkeypatch.setattr("recovery.resend.resend.__kwdefaults__", {"limit": 1})
    monkeypatch.setattr("recovery.outstanding.FURTHEST", 1)
    monkeypatch.setattr("console.chores.FURTHEST", 1)
    assert counted(page(root, path("resend"))) == "at least 1"
    assert "There are more" in root.post(path("resend"), WHY, follow=True).content.decode()
    assert "There are more" not in root.post(path("resend"), WHY, follow=True).content.decode()


def test_looking_costs_the_same_for_many(root: Client, trouble: dict[str, Occurrence], now: datetime) -> None:
    few = len(queries(root, "/admin/chores/"))
    for number in range(20):
        job = make_job(f"job {number}", now - HOUR)
        make_occurrence(job, now - HOUR, S.PENDING, late_at=now - MINUTE)
        one = make_occurrence(job, now - 2 * HOUR, S.DISPATCHED)
        make_run(one, make_task(job), RunState.SCHEDULED, dispatched_at=None)
    assert Job.objects.count() > 20
    assert len(queries(root, "/admin/chores/")) == few


def test_an_entry_says_what_was_done_by_kind_and_that_it_was_broken_off(root: Client, now: datetime) -> None:
    entry = Entry(Action.RECOVER, Asked("ada", "the beats were off"), now=now, details={"jobs": "all"})
    entry.add(3, missed=2, recovered=1)
    text = page(root, "/admin/recovery/audit/")
    assert "catch-up" in text
    assert "not finished" in text
    detail = page(root, f"/admin/recovery/audit/{Audit.objects.get().pk}/change/")
    assert detail.index("jobs&quot;: &quot;all") < detail.index("missed&quot;: 2")
    entry.finish()
    assert "not finished" not in page(root, "/admin/recovery/audit/")
