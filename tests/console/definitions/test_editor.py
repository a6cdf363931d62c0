"""Changing a job in the editor: preview, confirm; concurrent edits; nothing typed is lost."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from punctual import hook
from punctual.beat.periodic_tasks.importer import FUNCTION, SEND
from punctual.jobs.clock import database_now
from punctual.jobs.control import stop
from punctual.jobs.declaration.registry import registry
from punctual.jobs.models import Job, JobVersion, Origin, Task
from punctual.operations.permissions import SEND_MESSAGES
from tests.console.definitions.editable_jobs import FUNCTIONS, LIST, edit_url, pending, saved
from tests.console.definitions.form_driver import EditorSession
from tests.console.fixtures import Viewer, page
from tests.console.ledger_rows import make_job

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.req("OPS-2"),
    pytest.mark.req("JOB-5"),
    pytest.mark.usefixtures("functions"),
]

ODD = ["x" * 200, "夜間バッチ処理", "<script>alert(1)</script>", "a & b “quoted” /slash"]


@pytest.mark.req("JOB-6")
def test_nothing_changes_until_it_is_confirmed_and_then_all_of_it_does(root: Client) -> None:
    job = saved()
    before = pending(job)
    editing = EditorSession(root, edit_url(job))
    shown = editing.look(schedule="TZ=Europe/Berlin 0 5 * * *", config='{"mode": "parallel"}', reason="why")
    assert "0 2 * * *" in shown
    assert "TZ=Europe/Berlin 0 5 * * *" in shown
    assert "at 05:00 every day, Europe/Berlin time" in shown
    assert "config.mode" in shown
    assert "1 added, 1 removed, 0 kept" in shown
    assert "05:00:00 Europe/Berlin" in shown
    assert "02:00:00 UTC" in shown
    assert pending(job) == before
    assert JobVersion.objects.count() == 1
    editing.confirm()
    job.refresh_from_db()
    assert (job.schedule, job.config) == ("TZ=Europe/Berlin 0 5 * * *", {"mode": "parallel"})
    assert len(pending(job)) == 1
    assert pending(job) != before


def test_a_change_keeps_author_reason_before_and_after_and_is_logged(root: Client) -> None:
    job = saved()
    editing = EditorSession(root, edit_url(job))
    editing.look(schedule="@hourly", metadata='{"owner": "データ"}', reason="the source moved")
    assert "version 2" in editing.confirm()
    version = JobVersion.objects.get(job=job, number=2)
    assert (version.author, version.reason) == ("admin", "the source moved")
    assert (version.before or {})["schedule"] == "0 2 * * *"
    assert (version.after["schedule"], version.after["metadata"]) == ("@hourly", {"owner": "データ"})
    entry = LogEntry.objects.get()
    assert entry.action_flag == CHANGE
    expected = "Changed schedule, metadata.owner; version 2: the source moved"
    assert entry.get_change_message() == expected


def test_of_two_concurrent_edits_the_second_sees_the_conflict_and_keeps_its_input(root: Client) -> None:
    job = saved()
    mine, theirs = EditorSession(root, edit_url(job)), EditorSession(root, edit_url(job))
    mine.look(config='{"mode":   "parallel"}', reason="mine")
    theirs.look(schedule="@hourly", reason="theirs")
    theirs.confirm()
    answer = mine.confirm()
    assert "the job is at version 2 now" in answer
    assert "made by admin: “theirs”" in answer
    assert mine.fields["config"] == '{"mode":   "parallel"}'
    assert mine.fields["reason"] == "mine"
    meanwhile, _, yours = answer.partition("What your form would change now")
    assert "@hourly" in meanwhile
    assert "config.mode" in yours
    assert JobVersion.objects.count() == 2
    mine.look(schedule="@hourly")
    mine.confirm()
    job.refresh_from_db()
    assert (job.version, job.schedule, job.config) == (3, "@hourly", {"mode": "parallel"})


def test_a_stop_made_meanwhile_is_reported_and_not_undone_by_an_edit(root: Client) -> None:
    job = saved()
    editing = EditorSession(root, edit_url(job))
    stop(job.name, author="bob")
    assert "made by bob: “stopped”" in editing.look(schedule="@hourly", reason="unrelated")
    assert "Nothing is changed yet" in editing.look()
    editing.confirm()
    job.refresh_from_db()
    assert (job.schedule, job.enabled) == ("@hourly", False)


def test_a_stop_that_made_no_version_is_not_undone_either(root: Client) -> None:
    job = saved()
    editing = EditorSession(root, edit_url(job))
    Job.objects.update(enabled=False)
    editing.look(schedule="@hourly", reason="unrelated")
    editing.confirm()
    job.refresh_from_db()
    assert (job.schedule, job.enabled) == ("@hourly", False)


def test_switching_a_job_off_in_the_form_switches_it_off(root: Client) -> None:
    job = saved()
    editing = EditorSession(root, edit_url(job))
    assert "1 removed" in editing.post("_preview", reason="season is over", enabled="")
    editing.confirm()
    job.refresh_from_db()
    assert not job.enabled


@pytest.mark.req("JOB-6")
@pytest.mark.parametrize(
    ("policy", "counts"),
    [("immediate", "1 added, 1 removed, 0 kept"), ("graceful", "0 added, 0 removed, 1 kept")],
)
def test_the_update_policy_decides_what_becomes_of_planned_occurrences(
    root: Client, policy: str, counts: str
) -> None:
    job = saved()
    before = pending(job)
    editing = EditorSession(root, edit_url(job))
    assert counts in editing.look(schedule="30 3 1 1 *", policy=policy, reason="why")
    editing.confirm()
    assert (pending(job) == before) is (policy == "graceful")


@pytest.mark.req("JOB-6")
def test_the_horizon_of_the_windowed_policy_is_typed_as_a_duration(root: Client) -> None:
    job = saved(schedule="0 0 1 1 *")
    editing = EditorSession(root, edit_url(job))
    typed = {"schedule": "0 0 2 1 *", "policy": "windowed", "reason": "why"}
    assert "expected a duration" in editing.look(**typed, horizon="soon")
    assert "0 added, 0 removed, 1 kept" in editing.look(**typed, horizon="1ms")


@pytest.mark.req("JOB-7")
def test_tasks_are_added_reordered_configured_and_removed(root: Client) -> None:
    job = saved()
    editing = EditorSession(root, edit_url(job))
    editing.post("_more")
    row = {"tasks-1-name": "load", "tasks-1-function": FUNCTIONS[1], "tasks-1-ORDER": "0"}
    shown = editing.look(**row, **{"tasks-1-config": '{"task_timeout": "90s"}', "reason": "two steps"})
    assert "task load: config.task_timeout" in shown
    editing.confirm()
    current = Task.objects.filter(job=job).order_by("position")
    assert [(task.name, task.function, task.config) for task in current] == [
        ("load", FUNCTIONS[1], {"task_timeout": "1m30s"}),
        ("extract", FUNCTIONS[0], {}),
    ]
    again = EditorSession(root, edit_url(job))
    again.look(**{"tasks-1-DELETE": "on", "reason": "one step"})
    again.confirm()
    assert list(Task.objects.current().filter(job=job).values_list("name", flat=True)) == ["load"]


@pytest.mark.req("JOB-4")
def test_only_registered_functions_can_be_chosen(root: Client) -> None:
    job = saved()
    editing = EditorSession(root, edit_url(job))
    for name in FUNCTIONS:
        assert f'value="{name}"' in editing.page
    text = editing.look(**{"tasks-0-function": "os.system", "reason": "why"})
    assert "no code registers it" in text
    assert JobVersion.objects.count() == 1


@pytest.mark.req("JOB-4", "JOB-9")
def test_only_registered_hooks_can_be_named(root: Client) -> None:
    job = saved()
    editing = EditorSession(root, edit_url(job))
    text = editing.look(config='{"on_complete": ["os.system"]}', reason="why")
    assert "no code registers this hook; registered are" in text
    assert JobVersion.objects.count() == 1
    name = f"{__name__}.{hook(notify).__qualname__}"
    editing.look(config=f'{{"on_complete": ["{name}"]}}', reason="why")
    editing.confirm()
    assert Job.objects.get(id=job.id).config == {"on_complete": [name]}
    url = f"/admin/punctual/job/{job.id}/change/"
    assert (name in page(root, url), "unresolved" in page(root, url)) == (True, False)
    registry.hooks.clear()
    assert "unresolved" in page(root, url)


def notify(report: object) -> None: ...


@pytest.mark.req("JOB-4")
def test_a_stored_function_without_registration_is_named_and_must_be_replaced(root: Client) -> None:
    job = saved()
    Task.objects.filter(job=job).update(function="gone.away")
    editing = EditorSession(root, edit_url(job))
    assert "Stored is gone.away: no code registers it." in editing.page
    editing.look(**{"tasks-0-function": FUNCTIONS[1], "reason": "it was renamed"})
    editing.confirm()
    assert Task.objects.get(job=job).function == FUNCTIONS[1]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ({"schedule": "61 * * * *"}, "etl: schedule=&#x27;61 * * * *&#x27;"),
        (
            {"config": '{"mode": "sideways"}'},
            "mode=&#x27;sideways&#x27;: expected one of sequential, parallel",
        ),
        ({"config": '{"colour": "red"}'}, "colour=&#x27;red&#x27;: unknown setting; expected one of"),
        ({"config": "[1]"}, "expected an object such as {}"),
        ({"config": '{"mode": '}, "not JSON: Expecting value (line 1, column 10)"),
        ({"config": '{"priority": NaN}'}, "NaN is not a JSON number"),
        ({"metadata": '{"a": 1}'}, "expected a mapping of texts to texts"),
        ({"metadata": '{"a": "\\u0000"}'}, "cannot be stored"),
        ({"reason": " "}, "This field is required"),
        ({"reason": "x" * 501}, "at most 500 characters"),
        (
            {"tasks-0-config": '{"mode": "parallel"}'},
            "etl/extract: mode=&#x27;parallel&#x27;: unknown setting",
        ),
        ({"tasks-0-DELETE": "on"}, "expected a list with at least one task"),
        ({}, "Nothing is changed"),
    ],
)
def test_a_wrong_definition_is_refused_with_the_same_message_as_elsewhere(
    root: Client, typed: dict[str, str], expected: str
) -> None:
    job = saved()
    editing = EditorSession(root, edit_url(job))
    text = editing.look(**{"reason": "why", **typed})
    assert expected in text
    assert 'name="_confirm"' not in text
    assert typed.items() <= editing.fields.items()
    assert JobVersion.objects.count() == 1


def test_a_missing_reason_does_not_hide_what_else_is_wrong(root: Client) -> None:
    text = EditorSession(root, edit_url(saved())).look(schedule="61 * * * *")
    assert "This field is required" in text
    assert "schedule=" in text


def test_a_task_named_twice_is_reported_beside_the_second(root: Client) -> None:
    editing = EditorSession(root, edit_url(saved()))
    editing.post("_more")
    text = editing.look(
        **{"tasks-1-name": "extract", "tasks-1-function": FUNCTIONS[1], "tasks-1-ORDER": "2", "reason": "why"}
    )
    assert "declared twice" in text[text.index('name="tasks-1-name"') :]


def test_adding_a_row_shows_no_errors_yet(root: Client) -> None:
    text = EditorSession(root, f"{LIST}add/").post("_more")
    assert "This field is required" not in text
    assert 'name="tasks-1-name"' in text


def test_back_from_the_confirmation_shows_what_was_typed(root: Client) -> None:
    editing = EditorSession(root, edit_url(saved()))
    editing.look(config='{"mode":\n  "parallel"}', reason="why")
    editing.post("_back")
    assert editing.fields["config"].split() == ['{"mode":', '"parallel"}']
    assert editing.fields["reason"] == "why"


@pytest.mark.req("JOB-3")
def test_a_job_is_added_with_its_first_version_and_a_log_entry(root: Client) -> None:
    editing = EditorSession(root, f"{LIST}add/")
    shown = editing.look(
        name=" nightly ",
        schedule="TZ=Asia/Tokyo 0 2 * * *",
        reason="wanted",
        **{"tasks-0-name": "extract", "tasks-0-function": FUNCTIONS[0]},
    )
    assert "02:00:00 Asia/Tokyo" in shown
    assert not Job.objects.exists()
    editing.confirm()
    job = Job.objects.get(name="nightly")
    assert (job.origin, job.version, job.enabled) == (Origin.ADMIN, 1, True)
    version = JobVersion.objects.get()
    assert (version.author, version.reason, version.before) == ("admin", "wanted", None)
    assert LogEntry.objects.get().action_flag == ADDITION


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_name_that_is_taken_is_refused_and_nothing_is_overwritten(root: Client, when: str) -> None:
    editing = EditorSession(root, f"{LIST}add/")
    if when == "before":
        saved("nightly")
    typed = {"name": "nightly", "schedule": "@hourly", "reason": "mine", "tasks-0-name": "step"}
    text = editing.look(**typed, **{"tasks-0-function": FUNCTIONS[1]})
    if when == "meanwhile":
        saved("nightly")
        text = editing.confirm()
    assert "there is a job of this name already" in text
    assert editing.fields["schedule"] == "@hourly"
    assert Job.objects.get().schedule == "0 2 * * *"


@pytest.mark.req("CHX-16")
def test_a_relative_once_is_stored_as_the_instant_it_means(root: Client) -> None:
    job = saved()
    editing = EditorSession(root, edit_url(job))
    shown = editing.look(schedule="@once +20m", reason="soon")
    assert "“@once +20m” counts from the moment you confirm" in shown
    earliest = database_now() + timedelta(minutes=20)
    editing.confirm()
    job.refresh_from_db()
    stored = datetime.fromisoformat(job.schedule.removeprefix("@once "))
    second = timedelta(seconds=1)
    assert earliest - second <= stored.astimezone(UTC) <= database_now() + timedelta(minutes=20) + second


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_edited_like_any_other(root: Client, name: str) -> None:
    job = saved(name)
    editing = EditorSession(root, edit_url(job))
    assert "<script>alert" not in editing.look(schedule="@hourly", reason=name)
    editing.confirm()
    job.refresh_from_db()
    assert job.schedule == "@hourly"
    assert JobVersion.objects.get(job=job, number=2).reason == name
    for path in (f"{LIST}{job.pk}/change/", "/admin/punctual/jobversion/"):
        assert "<script>alert" not in page(root, path)


@pytest.mark.parametrize("origin", [Origin.CODE, Origin.FILE, Origin.POLLING])
def test_a_definition_owned_elsewhere_has_no_editor(root: Client, now: datetime, origin: Origin) -> None:
    job = make_job("etl", now, origin=origin)
    assert edit_url(job) not in page(root, f"{LIST}{job.pk}/change/")
    assert root.get(edit_url(job)).status_code == 403
    assert root.post(edit_url(job), {"schedule": "@hourly", "_confirm": "1"}).status_code == 403


def test_editing_and_adding_need_their_own_permissions(viewer: Viewer) -> None:
    job = saved()
    client = viewer(
        "punctual.view_job", "punctual.trigger_job", "punctual.pause_job", "punctual.view_jobversion"
    )
    assert edit_url(job) not in page(client, f"{LIST}{job.pk}/change/")
    for path in (edit_url(job), f"{LIST}add/"):
        assert client.get(path).status_code == 403
        assert client.post(path, {"_confirm": "1"}).status_code == 403


MESSAGES: dict[str, Any] = {"tasks": [{"name": "send", "function": FUNCTION, "config": {}}]}


def test_a_job_that_sends_messages_is_defined_only_with_its_own_permission(viewer: Viewer) -> None:
    registry.add_function(SEND)
    client = viewer("punctual.view_job", "punctual.change_job", "punctual.add_job")
    adding = EditorSession(client, f"{LIST}add/")
    assert FUNCTION not in adding.page
    typed = {"name": "new", "schedule": "@daily", "tasks-0-name": "send", "tasks-0-function": FUNCTION}
    assert "you may not use it" in adding.look(**typed, reason="why")
    adding.post("_confirm", **typed, reason="why")
    assert not Job.objects.exists()

    job = saved(permissions=(SEND_MESSAGES,), metadata={"celery_task": "shop.report"}, **MESSAGES)
    assert edit_url(job) not in page(client, f"{LIST}{job.pk}/change/")
    assert client.get(edit_url(job)).status_code == 403
    assert client.post(edit_url(job), {"metadata": "{}", "_confirm": "1"}).status_code == 403


def test_an_old_version_that_sent_messages_is_not_restored_without_the_permission(viewer: Viewer) -> None:
    registry.add_function(SEND)
    saved(permissions=(SEND_MESSAGES,), **MESSAGES)
    job = saved(schedule="@hourly")
    client = viewer("punctual.view_job", "punctual.change_job")
    editing = EditorSession(client, f"{edit_url(job)}?restore=1")
    assert f"Stored is {FUNCTION}: it needs {SEND_MESSAGES}." in editing.page
    typed = {"tasks-0-name": "send", "tasks-0-function": FUNCTION}
    editing.post("_confirm", **typed, reason="why")
    assert Job.objects.get().version == 2


def test_with_the_permission_the_editor_offers_to_send_messages(viewer: Viewer) -> None:
    registry.add_function(SEND)
    client = viewer("punctual.view_job", "punctual.change_job", "punctual.add_job", SEND_MESSAGES)
    adding = EditorSession(client, f"{LIST}add/")
    typed = {"name": "new", "schedule": "@daily", "tasks-0-name": "send", "tasks-0-function": FUNCTION}
    adding.look(**typed, reason="why")
    adding.confirm()
    editing = EditorSession(client, edit_url(Job.objects.get()))
    editing.look(schedule="@hourly", reason="why")
    editing.confirm()
    assert Job.objects.get().schedule == "@hourly"


def test_opening_and_previewing_change_nothing(root: Client) -> None:
    job = saved()
    facts = Job.objects.values().get()
    for path in (edit_url(job), f"{edit_url(job)}?restore=1", f"{LIST}add/"):
        page(root, path)
        page(root, f"{path}{'&' if '?' in path else '?'}_confirm=1&reason=x&schedule=@hourly")
    assert Job.objects.values().get() == facts
    assert not LogEntry.objects.exists()


def test_a_forged_post_without_the_token_is_refused(admin_user: User) -> None:
    job = saved()
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    data = EditorSession(client, edit_url(job)).fields | {
        "schedule": "@hourly",
        "reason": "x",
        "_confirm": "1",
    }
    del data["csrfmiddlewaretoken"]
    assert client.post(edit_url(job), data).status_code == 403
    job.refresh_from_db()
    assert job.version == 1


def test_the_editor_costs_the_same_queries_for_few_tasks_and_many(
    root: Client,
) -> None:
    ContentType.objects.get_for_model(Job)  # Django looks it up once per process, for its log
    costs = []
    for name, size in (("small", 1), ("large", 30)):
        tasks = [{"name": f"t{n}", "function": FUNCTIONS[0]} for n in range(size)]
        job = saved(name, tasks=tasks)
        editing = EditorSession(root, edit_url(job))
        with CaptureQueriesContext(connection) as looking:
            editing.look(schedule="* * * * * *", reason="x")
        with CaptureQueriesContext(connection) as saving:
            editing.confirm()
        costs.append((len(looking), len(saving)))
    assert costs[0] == costs[1]
    assert costs[0] <= (12, 60)
