"""Invalid and hostile files of jobs, and files of trigger definitions."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from punctual.jobs.errors import DefinitionError
from punctual.jobs.files import syntax
from punctual.jobs.models import Job, Task
from tests.jobs.files.factories import (
    a_definition,
    a_fleet,
    apply_file,
    declared,
    refusal_lines,
    write_file,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("JOB-3")]

__all__ = ["declared", "write_file"]  # fixtures

ROOT = Path(__file__).resolve().parents[3]


# -- mistakes ------------------------------------------------------------------------------------------


def test_every_mistake_of_every_job_is_listed_and_nothing_is_written(write_file: Callable[..., str]) -> None:
    bad_task = {"name": "load", "function": 7, "config": {"queue": "", "mode": "parallel"}}
    lines = refusal_lines(
        write_file(
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
    text = "\n".join(lines[1:])
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
        assert expected in text


def test_a_name_given_twice_is_refused_at_both_places(write_file: Callable[..., str]) -> None:
    lines = refusal_lines(
        write_file(a_fleet(a_definition("a"), a_definition("b"), a_definition("a", "@daily")))
    )
    told = "name='a': given 2 times; job names are unique"
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
        ("[" * 5000, "f.yaml", "nested too deeply, at most 100 levels in .*line 1, column 101"),
        ("- " * 5000, "f.yaml", "nested too deeply, at most 100 levels"),
        ("jobs: &a [*a]", "f.yaml", "its aliases expand to"),
    ],
)
def test_a_hostile_file_is_one_clear_line(
    write_file: Callable[..., str], content: str | bytes, name: str, reason: str
) -> None:
    lines = refusal_lines(path := write_file(content, name))
    assert len(lines) == 1
    with pytest.raises(DefinitionError, match=reason) as caught:
        syntax.read_document(path)
    assert (caught.value.field, caught.value.value) == ("file", path)


def test_a_hundred_kilobytes_of_brackets_do_not_end_the_process(write_file: Callable[..., str]) -> None:
    program = "import sys; from punctual.jobs.files.syntax import read_document; read_document(sys.argv[1])"
    path = write_file("[" * 100_000, "f.yaml")
    command = [sys.executable, "-c", program, path]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, "an error, not a signal"
    assert "DefinitionError: file=" in ended.stderr
    assert "nested too deeply" in ended.stderr


def test_aliases_may_be_shared_but_not_expand_beyond_the_limit(write_file: Callable[..., str]) -> None:
    shared = "jobs:\n- &a {name: a, schedule: '@daily', tasks: [&t {name: s, function: app.step}]}\n"
    assert apply_file(write_file(shared + "- {name: b, schedule: '@daily', tasks: [*t]}\n", "f.yaml"))[
        "new"
    ] == [
        "a",
        "b",
    ]
    levels = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    (line,) = refusal_lines(write_file("\n".join([*levels, "jobs: *a29"]), "bomb.yaml"))
    assert "its aliases expand to 4e+29 values" in line


def test_a_file_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(syntax.MAX_BYTES + 1)
    assert refusal_lines(str(path)) == [f"file={str(path)!r}: larger than 100 MB"]
    assert refusal_lines(str(tmp_path)) == [f"file={str(tmp_path)!r}: Is a directory"]
    assert refusal_lines(str(tmp_path / "no")) == [
        f"file={str(tmp_path / 'no')!r}: No such file or directory"
    ]


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ([], 'file: expected {"jobs": [...]}, or trigger definitions with an id and an expression'),
        (7, "file: expected"),
        ({"name": "job"}, "file: expected"),
        ({"jobs": {}}, "jobs: {}: expected a list"),
        ({"jobs": None}, "jobs: None: expected a list"),
        ({"jobs": [], "version": 1}, "version: unknown field; expected jobs"),
        ({"jobs": [a_definition(metadata={"a": "\0"})]}, "jobs[0]: metadata.a='\\x00': NUL and lone"),
        ({"jobs": [a_definition(metadata={"\ud800": "a"})]}, "jobs[0]: metadata='\\ud800': NUL and lone"),
        ({"jobs": [a_definition(name="a\nb")]}, "jobs[0]: job: name='a\\nb': control characters"),
        ({"jobs": [a_definition(name="x" * 201)]}, "jobs[0]: job: name='xxx"),
    ],
)
def test_a_document_of_another_shape_is_one_clear_line(
    write_file: Callable[..., str], document: object, line: str
) -> None:
    lines = refusal_lines(write_file(document))
    assert len(lines) == 2
    assert lines[1].startswith(line)
    assert len(lines[1]) < 400


def test_keys_that_are_not_texts_are_refused(write_file: Callable[..., str]) -> None:
    lines = refusal_lines(write_file("jobs: [{name: a, config: {1: x, queue: y}}]", "f.yaml"))
    assert lines[1:] == ["jobs[0]: config=1: expected a text as key"]


# -- trigger definitions -------------------------------------------------------------------------------


@pytest.mark.req("CHX-16")
@pytest.mark.parametrize("listed", [False, True])
def test_trigger_definitions_become_jobs_that_call_the_named_function(
    write_file: Callable[..., str], *, listed: bool
) -> None:
    trigger = {"id": "ping", "expression": "*/5 * * * *", "enabled": False, "metadata": {"team": "data"}}
    path = write_file([trigger] if listed else trigger)
    assert apply_file(path, "--function", "app.step")["new"] == ["ping"]
    row = Job.objects.get()
    assert (row.name, row.schedule, row.enabled) == ("ping", "*/5 * * * *", False)
    assert row.metadata == {"team": "data"}
    assert list(Task.objects.values_list("name", "function")) == [("step", "app.step")]
    assert apply_file(path, "--function", "app.step")["preserved"] == ["ping"]


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
def test_invalid_trigger_definitions_are_refused(
    write_file: Callable[..., str], document: object, words: tuple[str, ...], line: str
) -> None:
    assert refusal_lines(write_file(document), *words)[1].startswith(line)
