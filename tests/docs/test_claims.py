"""Tests, commands, settings, options, metrics and indexes that the documentation names exist."""

import ast
import re
import runpy
from dataclasses import fields
from datetime import timedelta
from importlib.util import find_spec

import pytest
from django.apps import apps
from django.core.management import BaseCommand, get_commands, load_command_class

import punctual
from punctual import Context, Job
from punctual.conf import Settings
from punctual.console.status.metrics import render_metrics
from punctual.jobs.config.bounded_duration import format_duration
from punctual.jobs.config.cascade import Config
from punctual.jobs.config.keys import KEYS, TASK_KEYS
from punctual.jobs.config.retry import Retry
from punctual.jobs.declaration.registry import registry
from punctual.jobs.events import Event
from punctual.occurrences.models import Attempt, Cursor, Occurrence, TaskRun
from tests.architecture.source import FLOW
from tests.docs.markdown import ROOT, Page, page, pages
from tests.harness import START, Harness

ENVIRONMENT_FILES = ("environment.py", "settings.py", "wsgi.py")
READER = re.compile(r"(env|os\.environ)\.(get|setdefault)|(environment\.)?(flag|number|words|span)")
NAME = re.compile(r"[A-Z][A-Z_]+")
LOCAL = re.compile(r"[\w./-]+$")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.path)
def test_links_lead_somewhere(page: Page) -> None:
    for link in page.links:
        path, _, anchor = link.partition("#")
        target = (ROOT / page.path).parent / path if path else ROOT / page.path
        assert target.exists(), link
        if anchor:
            assert anchor in Page(link, target.read_text()).anchors, link


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.path)
def test_files_and_tests_named_in_text_exist(page: Page) -> None:
    for code in page.inline_code:
        path, _, test = code.partition("::")
        if LOCAL.match(path) and path.startswith(("tests/", "benchmarks/", *(f"{room}/" for room in FLOW))):
            assert (ROOT / path).exists(), code
            assert not test or f"def {test}(" in (ROOT / path).read_text(), code


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.path)
def test_commands_and_targets_exist(page: Page) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name in re.findall(r"manage\.py ([a-z_]+)", page.text):
        assert name in get_commands(), name
    for name in re.findall(r"(?:^|`|=\w+ )make ([a-z-]+)", page.text, re.MULTILINE):
        assert name in targets, name


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.path)
def test_no_page_names_a_path_of_a_developers_machine(page: Page) -> None:
    assert not re.search(r"/(root|home|work)/", page.text)


def test_every_setting_of_the_cascade_is_listed_with_its_default() -> None:
    rows = {row[0]: row for row in page("docs/concepts.md").table("Settings")}
    assert rows.keys() == KEYS.keys()
    default = Config()
    for key, (_, shown, task, _) in rows.items():
        assert (task == "yes") == (key in TASK_KEYS), key
        if key == "retry":
            assert eval(shown, {"Retry": Retry}) == default.retry  # noqa: S307 - our own table
        else:
            value = KEYS[key].dump(getattr(default, key))
            assert shown == ("none" if value is None else str(value)), key


def test_everything_a_task_is_told_is_listed() -> None:
    rows = page("docs/concepts.md").table("The context of a task")
    listed = {name.partition("(")[0].strip("` ") for row in rows for name in row[0].split(",")}
    told = {name for name in dir(Context) if not name.startswith("_")} | set(Context.__dataclass_fields__)
    assert listed == told - {"channel", "read_previous_run"}


def test_every_environment_variable_is_listed() -> None:
    rows = page("docs/operations.md").table("Environment variables")
    assert sorted(row[0] for row in rows) == sorted(environment_variables())


def test_every_key_of_punctual_is_listed_with_its_default() -> None:
    rows = {row[0]: row[1] for row in page("docs/operations.md").table("The setting PUNCTUAL")}
    assert rows == {field.name: default_text(field.default) for field in fields(Settings)}


def default_text(value: object) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    return "none" if value is None else str(value)


def environment_variables() -> set[str]:
    """Return the names of the variables that `scheduler_project` reads."""
    names: set[str] = set()
    for file in ENVIRONMENT_FILES:
        for node in ast.walk(ast.parse((ROOT / "scheduler_project" / file).read_text())):
            if isinstance(node, ast.Call) and READER.fullmatch(ast.unparse(node.func)):
                texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                names |= {text for text in texts[:1] if isinstance(text, str) and NAME.fullmatch(text)}
    return names


def test_every_option_of_up_is_listed_with_its_default() -> None:
    parser = load_command_class("scheduler_project", "up").create_parser("manage.py", "up")
    own = [action for action in parser._actions if action.option_strings[0] not in django_options()]
    defaults = {action.option_strings[0]: action.default for action in own}
    rows = {row[0]: row[1] for row in page("docs/operations.md").table("manage.py up")}
    assert rows == {name: str(default or "off") for name, default in defaults.items()}


def django_options() -> set[str]:
    parser = BaseCommand().create_parser("manage.py", "any")
    return {action.option_strings[0] for action in parser._actions if action.option_strings}


@pytest.mark.django_db
def test_every_metric_is_listed_with_its_kind() -> None:
    text = render_metrics(START).decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    rows = {row[0].partition("{")[0]: row[1] for row in page("docs/operations.md").table("Metrics")}
    assert rows == kinds


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.path)
def test_events_named_in_text_exist(page: Page) -> None:
    owners = {event.partition(".")[0] for event in Event}
    named = {code for code in page.inline_code if re.fullmatch(r"[a-z]+\.[a-z_]+", code)}
    assert {code for code in named if code.partition(".")[0] in owners} <= {*Event}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.path)
def test_permissions_and_functions_named_in_text_exist(page: Page) -> None:
    named = {code for code in page.inline_code if re.fullmatch(r"punctual\.[a-z_]+", code)}
    permissions = {
        f"{model._meta.app_label}.{codename}"
        for model in apps.get_app_config("punctual").get_models()
        for codename in [
            *(f"{verb}_{model._meta.model_name}" for verb in model._meta.default_permissions),
            *(codename for codename, _ in model._meta.permissions),
        ]
    }
    known = permissions | {f"punctual.{name}" for name in punctual.__all__}
    assert {name for name in named - known if find_spec(name) is None} == set()


@pytest.mark.parametrize("model", [Cursor, Occurrence, TaskRun, Attempt])
def test_every_index_is_explained(model: type[Occurrence]) -> None:
    text = page("docs/architecture.md").text
    assert [index.name for index in model._meta.indexes if f"`{index.name}`" not in text] == []


@pytest.mark.parametrize(
    ("overlap", "states"),
    [("skip", ["completed"] * 6), ("queue", ["completed"] * 6), ("allow", ["completed"] * 6)],
)
def test_recovered_occurrences_all_run_whatever_the_overlap(
    harness: Harness, overlap: str, states: list[str]
) -> None:
    Job("job", "*/10 * * * *", overlap=overlap, recovery="execute_all").task(noop)
    harness.sync()
    harness.tick()
    harness.pass_time(minutes=61)
    harness.live(step=6, seconds=42)
    assert harness.finished("job") == states


def noop(ctx: object) -> None: ...


def test_the_demo_has_five_jobs() -> None:
    with registry.isolated():
        runpy.run_path(str(ROOT / "examples/demo/jobs.py"))
        assert len(registry.jobs) == 5


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "docs/images").glob("*.png")))
def test_every_picture_is_small_and_sharp(name: str) -> None:
    picture = (ROOT / "docs/images" / name).read_bytes()
    width, height = (int.from_bytes(picture[at : at + 4]) for at in (16, 20))
    assert (width, height) == (1280, 800)
    assert len(picture) < 300_000
