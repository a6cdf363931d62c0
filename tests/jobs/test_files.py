import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs import files, fleet
from jobs import scheduled as scheduled_job
from jobs.definition import Definition
from jobs.entries import entries
from jobs.errors import DefinitionError, StaleVersionError
from jobs.models import Job, JobVersion, Origin, Task
from jobs.policy import UpdatePolicy
from jobs.progress import Progress
from jobs.registry import Registry, TaskFunction, registry
from jobs.store import BATCH, Change, store
from jobs.sync import sync
from occurrences.materialize import plan_due
from occurrences.models import Occurrence

pytestmark = [pytest.mark.django_db, pytest.mark.req("JOB-3")]

NOW = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)
CHANGE = Change(Origin.FILE, "ann", NOW)


@pytest.fixture(autouse=True)
def declared() -> Iterator[Registry]:
    with registry.isolated():
        registry.add_function(TaskFunction("app.step", step))
        yield registry


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., str]:
    def write(content: object, name: str = "fleet.json") -> str:
        path = tmp_path / name
        raw = content if isinstance(content, bytes) else None
        text = content if isinstance(content, str) else json.dumps(content) if raw is None else ""
        path.write_bytes(raw if raw is not None else text.encode())
        return str(path)

    return write


def step(ctx: object) -> None: ...


def a_definition(name: str = "job", schedule: str = "@hourly", **fields: Any) -> dict[str, Any]:
    return {"name": name, "schedule": schedule, "tasks": [{"name": "step", "function": "app.step"}]} | fields


def a_fleet(*definitions: object) -> dict[str, Any]:
    return {"jobs": list(definitions)}


RICH = a_definition(
    "nächtlich: ü → 夜",
    "TZ=Europe/Berlin 0 2 * * MON-FRI {jitter:5m}",
    config={"mode": "parallel", "retry": {"max_retries": 2, "interval": "30s"}, "task_timeout": "90s"},
    metadata={
        "yes": "no",
        "": "0x10",
        "date": "2026-01-01",
        "text": "line\nline\t\u2028\x85 # : - 'quoted\"",
    },
    enabled=False,
    tasks=[
        {"name": "load", "function": "app.load", "config": {"queue": "bulk"}},
        {"name": "extract", "function": "app.step"},
    ],
)


def applied(path: str, *words: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("jobs", "apply", path, *words, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def exported(*words: str) -> str:
    out = io.StringIO()
    call_command("jobs", "export", *words, stdout=out)
    return out.getvalue()


def refused(path: str, *words: str) -> list[str]:
    """The lines of the refusal; nothing was written."""
    before = everything()
    with pytest.raises(CommandError) as caught:
        call_command("jobs", "apply", path, *words)
    assert everything() == before
    assert caught.value.returncode == 1
    return str(caught.value).splitlines()


def everything() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Job, Task, JobVersion)]


# -- round trip --------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", files.FORMATS)
def test_a_fleet_comes_back_byte_for_byte(file: Callable[..., str], format_: str) -> None:
    applied(file(a_fleet(RICH, a_definition("plain"))))
    first = exported("--format", format_)
    Job.objects.all().delete()
    answer = applied(file(first, f"fleet.{format_}"))
    assert answer["new"] == ["nächtlich: ü → 夜", "plain"]
    assert exported("--format", format_) == first


@pytest.mark.parametrize("format_", files.FORMATS)
def test_applying_an_export_changes_nothing(file: Callable[..., str], format_: str) -> None:
    applied(file(a_fleet(RICH, a_definition("plain"))))
    store([Definition.load(a_definition("of the admin"))], Change(Origin.ADMIN, "bob", NOW))
    before = everything()
    answer = applied(file(exported("--format", format_), f"fleet.{format_}"), "--prune")
    assert answer == {
        "new": [],
        "changed": [],
        "preserved": ["nächtlich: ü → 夜", "of the admin", "plain"],
        "removed": [],
    }
    assert everything() == before


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


@given(metadata=st.dictionaries(TEXTS, TEXTS, max_size=4))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("format_", files.FORMATS)
def test_any_text_survives_a_file(tmp_path: Path, format_: str, metadata: dict[str, str]) -> None:
    path = tmp_path / f"fleet.{format_}"
    path.write_text(files.written(metadata, format_), encoding="utf-8", newline="\n")
    assert files.read(str(path)) == metadata


def test_an_export_names_its_jobs_in_order_and_can_be_cut_down(file: Callable[..., str]) -> None:
    applied(file(a_fleet(a_definition("b"), a_definition("a"), a_definition("Z"))))
    assert [job["name"] for job in json.loads(exported())["jobs"]] == ["Z", "a", "b"]
    assert [job["name"] for job in json.loads(exported("b", "Z"))["jobs"]] == ["Z", "b"]
    with pytest.raises(CommandError, match="no job is named 'nobody'"):
        exported("a", "nobody")


def test_an_export_to_a_file_takes_its_format_from_the_name(tmp_path: Path, file: Callable[..., str]) -> None:
    applied(file(a_fleet(RICH)))
    path = tmp_path / "out.yml"
    assert exported("--output", str(path)) == f"{path}  1\n"
    assert path.read_text().startswith("jobs:\n- name:")
    with pytest.raises(CommandError, match=r"--output='.*': No such file or directory"):
        exported("--output", str(tmp_path / "nowhere" / "out.json"))
    with pytest.raises(CommandError, match="format='xml': expected one of json, yaml"):
        exported("--format", "xml")


# -- what somebody else owns --------------------------------------------------------------------------


def test_a_job_of_code_is_preserved_while_the_file_says_the_same(file: Callable[..., str]) -> None:
    scheduled_job("@hourly", name="coded")(step)
    sync(NOW)
    text = exported()
    assert json.loads(text)["jobs"][0]["origin"] == "code"
    assert applied(file(text))["preserved"] == ["coded"]


def test_a_job_of_code_that_the_file_would_change_is_refused(file: Callable[..., str]) -> None:
    scheduled_job("@hourly", name="coded")(step)
    sync(NOW)
    text = exported().replace("@hourly", "@daily")
    lines = refused(file(text))
    assert lines[1:] == ["jobs[0]: name='coded': declared in code; change it there"]


def test_a_job_marked_as_code_is_not_made_where_no_code_declares_it(file: Callable[..., str]) -> None:
    (line,) = refused(file(a_fleet(a_definition("coded", origin="code"))))[1:]
    assert line.startswith("jobs[0]: name='coded': is owned by code, which has not made it here")
    assert "jobs[0]: origin='magic': expected one of code, admin" in "\n".join(
        refused(file(a_fleet(a_definition("coded", origin="magic"))))
    )


def test_a_file_takes_over_a_job_of_the_admin_only_to_change_it(file: Callable[..., str]) -> None:
    store([Definition.load(a_definition())], Change(Origin.ADMIN, "bob", NOW))
    applied(file(a_fleet(a_definition())))
    assert (Job.objects.get().origin, Job.objects.get().version) == ("admin", 1)
    applied(file(a_fleet(a_definition(schedule="@daily"))))
    assert (Job.objects.get().origin, Job.objects.get().version) == ("file", 2)


# -- applying ------------------------------------------------------------------------------------------


@pytest.mark.req("JOB-5")
def test_every_change_keeps_who_and_why(file: Callable[..., str]) -> None:
    applied(file(a_fleet(a_definition())), "--author", "ann")
    applied(file(a_fleet(a_definition(schedule="@daily"))), "--author", "bob", "--reason", "too often")
    found = JobVersion.objects.order_by("number").values_list("number", "author", "reason")
    assert list(found) == [(1, "ann", "applied from fleet.json"), (2, "bob", "too often")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--author", "a" * 201), "--author='a+': expected at most 200 printable characters"),
        (("--reason", "r" * 501), "--reason='r+': expected at most 500 printable characters"),
        (("--reason", "a\0b"), "--reason=.*printable"),
        (("--policy", "later"), "policy='later': expected one of immediate, graceful, windowed"),
    ],
)
def test_a_bad_option_is_refused_before_the_file_is_read(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("jobs", "apply", "nowhere.json", *words)


def test_a_job_the_file_says_nothing_about_the_switch_of_keeps_it(file: Callable[..., str]) -> None:
    applied(file(a_fleet(a_definition(enabled=False))))
    assert applied(file(a_fleet(a_definition())))["preserved"] == ["job"]
    assert not Job.objects.get().enabled


def test_pruning_removes_what_files_own_and_nothing_else(file: Callable[..., str]) -> None:
    applied(file(a_fleet(a_definition("old"), a_definition("kept"))))
    store([Definition.load(a_definition("of the admin"))], Change(Origin.ADMIN, "bob", NOW))
    plan_due(NOW)
    only = file(a_fleet(a_definition("kept")))
    assert applied(only)["removed"] == []
    shown = applied(only, "--prune", "--dry-run")["removed"]
    assert [(item["name"], len(item["pending"]["removed"])) for item in shown] == [("old", 0)]
    assert applied(only, "--prune")["removed"] == ["old"]
    assert set(Job.objects.registered().values_list("name", flat=True)) == {"kept", "of the admin"}
    assert applied(file(a_fleet(a_definition("old"))))["changed"] == ["old"]


def test_a_pruned_job_leaves_no_planned_occurrence(file: Callable[..., str]) -> None:
    applied(file(a_fleet(a_definition("old"))))
    now = Job.objects.get().created_at
    plan_due(now)
    assert Occurrence.objects.count() == 1
    shown = applied(file(a_fleet()), "--prune", "--dry-run")["removed"]
    assert len(shown[0]["pending"]["removed"]) == 1
    applied(file(a_fleet()), "--prune")
    assert not Occurrence.objects.exists()


def test_an_instant_relative_to_now_is_stored_as_the_instant(file: Callable[..., str]) -> None:
    read = entries(a_fleet(a_definition(schedule="@once +20m")))
    (item,) = fleet.plan(read.found, now=NOW).new
    assert item.schedule == "@once 2026-01-05T12:20:30Z"


def test_somebody_else_s_edit_between_plan_and_write_stops_everything() -> None:
    store([Definition.load(a_definition())], CHANGE)
    wanted = a_fleet(a_definition(schedule="@daily"), a_definition("another"))
    planned = fleet.plan(entries(wanted).found, now=NOW)
    store([Definition.load(a_definition(schedule="@weekly"))], CHANGE)
    with pytest.raises(StaleVersionError, match="job: version=1: the job is at version 2 now"):
        fleet.apply(planned, CHANGE, progress=lambda _done: None)
    assert list(Job.objects.values_list("schedule", flat=True)) == ["@weekly"]


def test_the_number_of_statements_does_not_depend_on_the_number_of_jobs(file: Callable[..., str]) -> None:
    few, more = statements(2, file), statements(60, file)
    assert few == more


@pytest.mark.postgres  # SQLite takes few parameters a statement; there, Django cuts a batch in pieces
def test_a_second_batch_costs_no_more_than_the_first(file: Callable[..., str]) -> None:
    one, two = statements(BATCH, file), statements(2 * BATCH, file)
    assert two < 2 * one


def statements(size: int, file: Callable[..., str]) -> int:
    """How many it takes to apply a fleet of new jobs."""
    path = file(a_fleet(*(a_definition(f"{size} {n}") for n in range(size))))
    with CaptureQueriesContext(connection) as queries:
        applied(path)
    return len(queries)


def test_functions_nobody_registers_are_told_once_each(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    strange = [{"name": "step", "function": "app.typo"}]
    applied(file(a_fleet(a_definition("a", tasks=strange), a_definition("b", tasks=strange))))
    told = "function='app.typo': no code registers it here; 2 tasks stay unresolved until some does"
    assert capsys.readouterr().err == f"warning: {told}\n"


# -- dry run -------------------------------------------------------------------------------------------


@pytest.mark.req("JOB-6")
def test_a_dry_run_shows_everything_and_writes_nothing(file: Callable[..., str]) -> None:
    store([Definition.load(a_definition(name)) for name in ("changing", "staying")], CHANGE)
    plan_due(NOW)
    before = everything(), list(Occurrence.objects.values())
    wanted = file(
        a_fleet(a_definition("changing", "30 * * * *"), a_definition("staying"), a_definition("new"))
    )
    out = io.StringIO()
    call_command("jobs", "apply", wanted, "--dry-run", stdout=out)
    text = out.getvalue()
    assert text.startswith('new  new\nchanged  changing\n   schedule: "@hourly" → "30 * * * *"\n')
    assert "   pending added: 20" in text
    assert text.endswith("1 new, 1 changed, 1 preserved, 0 removed (dry run: nothing was written)\n")
    assert (everything(), list(Occurrence.objects.values())) == before


@pytest.mark.req("JOB-6")
@pytest.mark.parametrize("policy", ["immediate", "graceful", "windowed"])
def test_a_dry_run_s_diff_is_what_applying_then_does(policy: str) -> None:
    store([Definition.load(a_definition(schedule="*/15 * * * *"))], CHANGE)
    plan_due(NOW)
    wanted = a_fleet(a_definition(schedule="*/20 * * * *"))
    planned = fleet.plan(entries(wanted).found, now=LATER)
    kind = UpdatePolicy.named(policy)
    (diff,) = fleet.previews(planned, policy=kind, now=LATER)
    before = pending_instants()
    change = Change(Origin.FILE, "ann", LATER, policy=kind)
    fleet.apply(planned, change, progress=lambda _done: None)
    after = pending_instants()
    assert (set(diff.added), set(diff.removed)) == (after - before, before - after)
    assert set(diff.kept) == before & after
    assert after


def pending_instants() -> set[datetime]:
    return set(Occurrence.objects.filter(state="pending").values_list("scheduled_for", flat=True))


# -- mistakes ------------------------------------------------------------------------------------------


def test_every_mistake_of_every_job_is_told_and_nothing_is_written(file: Callable[..., str]) -> None:
    bad_task = {"name": "load", "function": 7, "config": {"queue": "", "mode": "parallel"}}
    lines = refused(
        file(
            a_fleet(
                a_definition("good"),
                a_definition("one", "61 * * * *", config={"overlap": "never", "colour": 1}, enabled="yes"),
                {"name": "", "tasks": [bad_task, "x", {"name": "a"}, {"name": "a", "function": "f"}]},
                ["not", "an", "object"],
                a_definition("two", metadata={"a": 1}, surprise=1),
            )
        )
    )
    assert lines[0] == "15 mistakes, nothing was written:"
    found = "\n".join(lines[1:])
    for expected in (
        "jobs[1]: one: schedule='61 * * * *': E002",
        "jobs[1]: one: overlap='never': expected one of skip, allow, queue",
        "jobs[1]: one: colour=1: unknown setting; expected one of",
        "jobs[1]: one: enabled='yes': expected true or false",
        "jobs[2]: job: name='': expected 1 to 200 characters",
        "jobs[2]: job: schedule=None: E010",
        "jobs[2]: job/load: function=7: expected the name of a registered function",
        "jobs[2]: job/load: queue='': expected a name",
        "jobs[2]: job/load: mode='parallel': unknown setting; expected one of",
        "jobs[2]: job/task: definition='x': expected an object such as {}",
        "jobs[2]: job/a: function=None: expected the name of a registered function",
        "jobs[2]: job: task='a': declared twice",
        "jobs[3]: job: definition=['not', 'an', 'object']: expected an object such as {}",
        "jobs[4]: two: metadata={'a': 1}: expected a mapping of texts to texts",
        "jobs[4]: two: surprise=1: unknown field; expected one of",
    ):
        assert expected in found


def test_a_name_given_twice_is_refused_at_both_places(file: Callable[..., str]) -> None:
    lines = refused(file(a_fleet(a_definition("a"), a_definition("b"), a_definition("a", "@daily"))))
    told = "name='a': given 2 times; a name stands for one job"
    assert lines[1:] == [f"jobs[0]: {told}", f"jobs[2]: {told}"]


@pytest.mark.req("OPS-3")
@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        (b"\xff\xfe", "f.json", "not UTF-8: byte 0 is 0xff"),
        ("", "f.json", "not JSON: Expecting value: line 1 column 1"),
        ('{"jobs": [', "f.json", "not JSON: Expecting value: line 1 column 11"),
        ('{"jobs": [], "jobs": []}', "f.json", "not JSON: key 'jobs' is given twice"),
        ("[" * 100_000, "f.json", "nested too deeply"),
        ('{"jobs": ' + "9" * 5000 + "}", "f.json", "not JSON: Exceeds the limit"),
        ("jobs: []\njobs: []\n", "f.yaml", "key 'jobs' is given twice in .*line 1, column 1"),
        ("jobs: !!python/object/apply:os.system [id]", "f.yaml", "could not determine a constructor"),
        ("jobs: !custom {}", "f.yaml", "could not determine a constructor for the tag '!custom'"),
        ("jobs: [}", "f.yml", "not YAML we accept: .*line 1, column 8"),
        ("jobs: 2026-13-45", "f.yaml", "not YAML: month must be in 1..12"),
        ("jobs: \x07", "f.yaml", "not YAML we accept: .*control characters are not allowed"),
        ("[" * 5000, "f.yaml", "not YAML we accept|nested too deeply"),
        ("jobs: &a [*a]", "f.yaml", "its aliases unfold into"),
    ],
)
def test_a_hostile_file_is_one_clear_line(
    file: Callable[..., str], content: str | bytes, name: str, reason: str
) -> None:
    lines = refused(path := file(content, name))
    assert len(lines) == 1
    with pytest.raises(DefinitionError, match=reason) as caught:
        files.read(path)
    assert (caught.value.field, caught.value.value) == ("file", path)


def test_aliases_may_share_but_not_explode(file: Callable[..., str]) -> None:
    shared = "jobs:\n- &a {name: a, schedule: '@daily', tasks: [&t {name: s, function: app.step}]}\n"
    assert applied(file(shared + "- {name: b, schedule: '@daily', tasks: [*t]}\n", "f.yaml"))["new"] == [
        "a",
        "b",
    ]
    levels = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    (line,) = refused(file("\n".join([*levels, "jobs: *a29"]), "bomb.yaml"))
    assert "its aliases unfold into 4e+29 values" in line


def test_a_file_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(files.MOST_BYTES + 1)
    assert refused(str(path)) == [f"file={str(path)!r}: larger than 100 MB"]
    assert refused(str(tmp_path)) == [f"file={str(tmp_path)!r}: Is a directory"]
    assert refused(str(tmp_path / "no")) == [f"file={str(tmp_path / 'no')!r}: No such file or directory"]


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ([], 'file: expected {"jobs": [...]}, or trigger definitions with an id and an expression'),
        (7, "file: expected"),
        ({"name": "job"}, "file: expected"),
        ({"jobs": {}}, "jobs: {}: expected a list"),
        ({"jobs": None}, "jobs: None: expected a list"),
        ({"jobs": [], "version": 1}, "version: unknown field; expected jobs"),
        ({"jobs": [a_definition(metadata={"a": "\0"})]}, "jobs[0]: metadata.a='\\x00': NUL and half"),
        ({"jobs": [a_definition(metadata={"\ud800": "a"})]}, "jobs[0]: metadata='\\ud800': NUL and half"),
        ({"jobs": [a_definition(name="a\nb")]}, "jobs[0]: job: name='a\\nb': control characters"),
        ({"jobs": [a_definition(name="x" * 201)]}, "jobs[0]: job: name='xxx"),
    ],
)
def test_a_document_of_another_shape_is_one_clear_line(
    file: Callable[..., str], document: object, line: str
) -> None:
    lines = refused(file(document))
    assert len(lines) == 2
    assert lines[1].startswith(line)
    assert len(lines[1]) < 400


def test_keys_that_are_no_texts_are_refused(file: Callable[..., str]) -> None:
    lines = refused(file("jobs: [{name: a, config: {1: x, queue: y}}]", "f.yaml"))
    assert lines[1:] == ["jobs[0]: config=1: expected a text as key"]


# -- trigger definitions -------------------------------------------------------------------------------


@pytest.mark.req("CHX-16")
@pytest.mark.parametrize("listed", [False, True])
def test_trigger_definitions_become_jobs_that_call_the_function_given(
    file: Callable[..., str], *, listed: bool
) -> None:
    trigger = {"id": "ping", "expression": "*/5 * * * *", "enabled": False, "metadata": {"team": "data"}}
    path = file([trigger] if listed else trigger)
    assert applied(path, "--function", "app.step")["new"] == ["ping"]
    row = Job.objects.get()
    assert (row.name, row.schedule, row.enabled) == ("ping", "*/5 * * * *", False)
    assert row.metadata == {"team": "data"}
    assert list(Task.objects.values_list("name", "function")) == [("step", "app.step")]
    assert applied(path, "--function", "app.step")["preserved"] == ["ping"]


@pytest.mark.req("CHX-16")
@pytest.mark.parametrize(
    ("document", "words", "line"),
    [
        ({"id": "a", "expression": "@daily"}, (), "--function=None: trigger definitions need a registered"),
        ({"id": "a", "expression": "@daily"}, ("--function", "os.system"), "--function='os.system': trigger"),
        ({"id": "a b", "expression": "@daily"}, ("--function", "app.step"), "[0]: $.id: does not match"),
        ({"id": "a", "expression": "daily"}, ("--function", "app.step"), "[0]: E010"),
        ([{"id": "a"}, 7], ("--function", "app.step"), "[0]: $.expression: is required"),
        ({"jobs": []}, ("--function", "app.step"), "--function='app.step': only for trigger definitions"),
    ],
)
def test_trigger_definitions_are_checked_like_everything_else(
    file: Callable[..., str], document: object, words: tuple[str, ...], line: str
) -> None:
    assert refused(file(document), *words)[1].startswith(line)


# -- progress ------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_a_terminal_and_nowhere_else() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        progress = Progress(stream, 2000, "applying")
        progress(1000)
        progress(1000)
    assert pipe.getvalue() == ""
    half, full = f"[{'#' * 15}{'.' * 15}] 1,000/2,000", f"[{'#' * 30}] 2,000/2,000"
    assert terminal.getvalue() == f"\rapplying {half}\rapplying {full}\n"


def test_progress_of_nothing_is_nothing() -> None:
    terminal = Terminal()
    Progress(terminal, 0, "applying")(0)
    assert terminal.getvalue() == ""
