import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from punctual.beat.periodic_tasks.importer import SEND
from punctual.commands.catalog import all_verbs
from punctual.jobs.clock import database_now
from punctual.jobs.declaration.registry import TaskFunction, registry
from punctual.jobs.definition.document import Definition
from punctual.jobs.models import Job, JobVersion, Origin
from punctual.jobs.store.definitions import Change, restore, store
from punctual.occurrences.models import Cursor, Occurrence
from punctual.operations.models import Audit
from punctual.operations.permissions import SEND_MESSAGES

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-3")]

NOW = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)
TASK: dict[str, Any] = {"name": "step", "function": "app.step", "config": {"queue": "bulk"}}


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    with registry.isolated():
        registry.add_function(TaskFunction("app.step", step))
        yield


def step(ctx: object) -> None: ...


def stored(name: str = "job", schedule: str = "0 * * * *", *, by: str = "ann", **fields: Any) -> None:
    data = {"name": name, "schedule": schedule, "tasks": [TASK]} | fields
    store([Definition.load(data)], Change(Origin.ADMIN, by, NOW, reason=f"made {schedule}"))


def said(*words: str) -> str:
    out = io.StringIO()
    call_command("punctual", "jobs", *words, stdout=out)
    return out.getvalue()


def answered(*words: str) -> Any:
    return json.loads(said(*words, "--json"))


def test_every_verb_is_there_and_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = (
        "list show next trigger pause resume start stop remove sync export apply history restore import_beat"
    )
    verbs = {words.partition(" ")[2] for words in all_verbs() if words.startswith("jobs ")}
    assert verbs == set(wanted.split())
    for verb in verbs:
        with pytest.raises(SystemExit, match="0"):
            said(verb, "--help")
        assert capsys.readouterr().out.startswith("usage:")


@pytest.mark.parametrize(
    "verb", ["show", "next", "trigger", "pause", "resume", "start", "stop", "remove", "history"]
)
def test_an_unknown_name_is_one_line_and_exit_code_1(verb: str) -> None:
    with pytest.raises(
        CommandError, match=r"no job is named 'unknown'; `manage.py punctual jobs list` shows"
    ) as caught:
        said(verb, "unknown")
    assert caught.value.returncode == 1


def test_list_names_each_job_its_state_and_its_schedule() -> None:
    stored("a")
    stored("b", tasks=[{"name": "step", "function": "app.gone"}])
    assert said("list") == "a  active  0 * * * *  1\nb  unresolved  0 * * * *  1\n"
    assert answered("list")[0] == {"name": "a", "state": "active", "schedule": "0 * * * *", "version": 1}


def test_next_lists_instants_and_refuses_a_count_out_of_bounds() -> None:
    stored()
    assert len(said("next", "job", "-n", "3").splitlines()) == 3
    with pytest.raises(CommandError, match="-n=0: expected 1 to 1000"):
        said("next", "job", "-n", "0")


@pytest.mark.req("JOB-8")
def test_switches_report_the_change_or_that_there_was_none() -> None:
    stored()
    for verb, done, was in (
        ("pause", "paused", "was paused already"),
        ("resume", "resumed", "was not paused"),
        ("stop", "stopped", "was stopped already"),
        ("start", "started", "was started already"),
    ):
        assert [said(verb, "job").split("  (")[0].strip(), said(verb, "job")] == [
            f"job  {done}",
            f"job  {was}\n",
        ]


@pytest.mark.req("OPS-2", "OPS-3")
@pytest.mark.parametrize("verb", ["trigger", "pause", "resume", "stop", "start", "remove"])
def test_a_switch_leaves_an_audit_entry_and_a_dry_run_changes_nothing(verb: str) -> None:
    stored()
    if verb in ("resume", "start"):
        said({"resume": "pause", "start": "stop"}[verb], "job")
    Audit.objects.all().delete()
    before = [Job.objects.values().get(), Occurrence.objects.count()]
    assert "would be" in said(verb, "job", "--reason", "a test", "--by", "ada", "--dry-run")
    assert [Job.objects.values().get(), Occurrence.objects.count()] == before
    assert not Audit.objects.exists()
    said(verb, "job", "--reason", "a test", "--by", "ada")
    entry = Audit.objects.get()
    assert (entry.requested_by, entry.reason, entry.details) == ("ada", "a test", {"job": "job"})


@pytest.mark.req("JOB-8")
def test_resume_refuses_a_backlog_it_does_not_know() -> None:
    stored()
    with pytest.raises(
        CommandError, match="job: backlog='some': expected one of none, last, all, compressed"
    ):
        said("resume", "job", "--backlog", "some")


@pytest.mark.req("JOB-8")
def test_resume_counts_what_its_choice_runs_before_it_acts() -> None:
    stored()
    said("pause", "job")
    Job.objects.update(schedule="0 * * * * *", paused_at=database_now() - timedelta(hours=1))
    Cursor.objects.update(planned_until=database_now() - timedelta(minutes=10, seconds=1))
    for choice, runs in (("none", 0), ("last", 1), ("all", 10), ("compressed", 1)):
        (row,) = json.loads(said("resume", "job", "--backlog", choice, "--dry-run", "--json"))
        assert row["instants"] in (10, 11), "a minute may pass"
        assert row["runs"] == (row["instants"] if choice == "all" else runs)
        assert row["result"] == "would be resumed"
    assert Job.objects.get().paused


@pytest.mark.req("JOB-8")
def test_a_pause_takes_an_end_in_the_future_and_a_known_backlog() -> None:
    stored()
    for option, value, problem in (
        ("--until", "soon", "expected an instant such as"),
        ("--until", "2020-01-01", "expected an instant after now"),
        ("--backlog", "some", "expected one of none, last, all, compressed"),
    ):
        with pytest.raises(CommandError, match=problem):
            said("pause", "job", option, value)
    said("pause", "job", "--until", "2090-01-01T12:00Z", "--backlog", "all", "--reason", "new disks")
    job = Job.objects.get()
    assert (job.paused_until, job.pause_backlog) == (datetime(2090, 1, 1, 12, tzinfo=UTC), "all")
    assert job.pause_reason == "new disks"


@pytest.mark.req("OCC-9")
def test_trigger_passes_arguments_and_settings_on() -> None:
    stored()
    said("trigger", "job", "--args", '{"day": 1}', "--config", '{"queue": "urgent"}')
    row = Occurrence.objects.get()
    assert (row.args, row.overrides) == ({"day": 1}, {"queue": "urgent"})


@pytest.mark.parametrize("option", ["--args", "--config"])
@pytest.mark.parametrize("text", ["{", "[]", "7", "[" * 100_000])
def test_trigger_refuses_what_is_no_object(option: str, text: str) -> None:
    stored()
    with pytest.raises(CommandError, match=f"{option}='.*': (not JSON|expected a JSON object)"):
        said("trigger", "job", option, text)
    assert not Occurrence.objects.exists()


# -- show ----------------------------------------------------------------------------------------------


@pytest.mark.req("JOB-2")
def test_show_tells_where_each_setting_comes_from(settings: Any) -> None:
    settings.PUNCTUAL = {"misfire_grace": "2m"}
    stored(config={"mode": "parallel"}, metadata={"team": "data"})
    job = answered("show", "job")
    assert job["definition"]["metadata"] == {"team": "data"}
    assert (job["state"], job["version"], job["origin"]) == ("active", 1, "admin")
    assert job["config"]["mode"] == {"value": "parallel", "from": "job"}
    assert job["config"]["misfire_grace"] == {"value": "2m", "from": "platform"}
    assert job["config"]["overlap"] == {"value": "skip", "from": "default"}
    assert job["tasks"][0]["config"]["queue"] == {"value": "bulk", "from": "task"}
    assert len(job["next"]) == 5


def test_show_reads_well() -> None:
    stored(config={"mode": "parallel"}, metadata={"team": "data"})
    lines = said("show", "job").splitlines()
    assert lines[0].startswith("job  active  version 1  admin  job_")
    assert lines[1].startswith("schedule  0 * * * *  (")
    assert 'metadata  team = "data"' in lines
    assert any(line.split() == ["mode", '"parallel"', "from", "job"] for line in lines)
    assert lines[-2:] == ["task step  app.step", '  queue             "bulk"  from task']


@pytest.mark.req("JOB-4", "JOB-9")
def test_show_names_hooks_that_no_code_registers() -> None:
    stored(config={"on_start": ["app.gone"]})
    (problem,) = answered("show", "job")["unresolved_hooks"]
    assert problem.startswith("on_start='app.gone': no code registers this hook; registered are ")
    assert f"unresolved  {problem}" in said("show", "job").splitlines()


def test_show_reports_a_row_that_raw_sql_made_invalid() -> None:
    stored()
    Job.objects.update(schedule="whenever", config={"mode": "sideways"})
    text = said("show", "job")
    assert "whenever" in text
    assert "job: mode='sideways': expected one of sequential, parallel" in text


# -- history and restore -------------------------------------------------------------------------------


@pytest.mark.req("JOB-5")
def test_history_tells_who_when_why_and_what() -> None:
    stored()
    stored(schedule="@daily", by="bob", config={"mode": "parallel"})
    assert said("history", "job").splitlines() == [
        "2  2026-01-05T12:00:30+00:00  bob  made @daily",
        '   schedule: "0 * * * *" → "@daily"',
        '   config.mode: - → "parallel"',
        "1  2026-01-05T12:00:30+00:00  ann  made 0 * * * *",
    ]
    newest = answered("history", "job")[0]
    assert newest["changes"][0] == {"field": "schedule", "before": "0 * * * *", "after": "@daily"}


@pytest.mark.req("JOB-5")
def test_an_old_version_comes_back_as_a_new_one() -> None:
    stored(metadata={"team": "data"})
    stored(schedule="@daily", tasks=[TASK, {"name": "more", "function": "app.step"}])
    assert said("restore", "job", "1", "--reason", "too rare", "--author", "eve") == (
        "job  restored version 1  3\n"
    )
    first, _, third = JobVersion.objects.order_by("number")
    assert (third.after, third.author, third.reason) == (first.after, "eve", "too rare")
    job = Job.objects.get()
    assert (job.schedule, job.metadata, job.version) == ("0 * * * *", {"team": "data"}, 3)
    assert list(job.tasks.filter(retired_at=None).values_list("name", flat=True)) == ["step"]
    assert job.origin == "admin"
    assert said("restore", "job", "1", "--reason", "again") == "job  is as in version 1 already  3\n"


@pytest.mark.req("JOB-5")
def test_an_unknown_version_cannot_be_restored() -> None:
    stored()
    with pytest.raises(CommandError, match="job: version=7: expected one of 1"):
        said("restore", "job", "7", "--reason", "x")
    with pytest.raises(CommandError, match="no job is named 'unknown'"):
        said("restore", "unknown", "1", "--reason", "x")
    with pytest.raises(CommandError, match="--reason"):
        said("restore", "job", "1")


@pytest.mark.req("JOB-5")
def test_a_job_declared_in_code_is_not_restored() -> None:
    code = Change(Origin.CODE, "code", NOW)
    for schedule in ("@hourly", "@daily"):
        data = {"name": "coded", "schedule": schedule, "tasks": [TASK]}
        store([Definition.load(data)], code)
    with pytest.raises(CommandError, match="name='coded': declared in code; change it there"):
        said("restore", "coded", "1", "--reason", "x")
    assert restore("coded", 1, code).changed == ("coded",)


SENDER = {"name": "sender", "schedule": "@daily", "tasks": [{"name": "send", "function": SEND.name}]}


def test_a_file_defines_a_job_that_sends_messages_only_if_that_is_allowed(tmp_path: Path) -> None:
    registry.add_function(SEND)
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps({"jobs": [SENDER]}))
    for words in (("apply", str(file)), ("apply", str(file), "--dry-run")):
        with pytest.raises(CommandError, match=r"punctual\.send_messages; --allow-messages"):
            said(*words)
    assert not Job.objects.exists()
    said("apply", str(file), "--allow-messages")
    assert Job.objects.get().name == "sender"
    assert "1 preserved" in said("apply", str(file)), "unchanged: nothing to allow"


def test_a_version_that_sends_messages_is_restored_only_if_that_is_allowed() -> None:
    registry.add_function(SEND)
    allowed = Change(Origin.FILE, "ann", NOW, permissions=(SEND_MESSAGES,))
    store([Definition.load(SENDER)], allowed)
    store([Definition.load(SENDER | {"tasks": [TASK]})], replace(allowed, permissions=()))
    with pytest.raises(CommandError, match=r"needs the permission punctual\.send_messages"):
        said("restore", "sender", "1", "--reason", "why")
    said("restore", "sender", "1", "--reason", "why", "--allow-messages")
    assert Job.objects.get().version == 3
