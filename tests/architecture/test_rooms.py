"""The rules of the rooms: one import name, one meaning per module name, one place for each kind of thing."""

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import FLOW, ROOT, Module, module, modules

ROOMS = tuple(name for name in FLOW if name not in ("punctual", "scheduler_project"))
FORBIDDEN_WORDS = re.compile(r"\b(some|no|every|any)body\b|\bwhoever\b", re.IGNORECASE)
PROSE = {".py", ".md", ".html", ".js", ".toml", ".yaml", ".yml", ".css", ".json"}
CONVENTIONAL = {
    "__init__",
    "admin",
    "apps",
    "errors",
    "models",
    "tasks",
    "urls",
}  # by Django, Celery, or habit
SAME_MEANING = {"ids"}  # deterministic ids, of definitions and of occurrences
# Short, but an idea of its own with its own tests, and found by its name.
SHORT_ON_PURPOSE = {
    "console/acting/admin_log.py",
    "execution/ending/fingerprint.py",
    "scheduler_project/inspection.py",
}
SHORTEST_MODULE = 40  # with one importer, a shorter one belongs in that importer


def tracked() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [ROOT / line for line in done.stdout.splitlines()]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module an import statement names, and every name it takes from one."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(name), level=0, names=names):
                yield name
                yield from (f"{name}.{alias.name}" for alias in names)


def bare(tree: ast.AST) -> list[str]:
    return [name for name in imported(tree) if name.split(".")[0] in ROOMS]


@pytest.mark.req("ADO-1")
def test_no_module_imports_a_room_by_its_bare_name() -> None:
    sources = [path for path in tracked() if path.suffix == ".py"]
    assert len(sources) > 500
    strays = {str(path.relative_to(ROOT)): bare(ast.parse(path.read_text())) for path in sources}
    assert {path: names for path, names in strays.items() if names} == {}


@pytest.mark.parametrize(
    "code", ["import jobs", "from beat.scheduler import Scheduler", "from console import x"]
)
def test_the_scan_finds_a_bare_name(code: str) -> None:
    assert bare(ast.parse(code))


@pytest.mark.req("ADO-1")
@pytest.mark.parametrize("room", ROOMS)
def test_each_room_is_linked_into_the_package(room: str) -> None:
    link = ROOT / "punctual" / room
    assert link.is_symlink()
    assert link.resolve() == ROOT / room


@pytest.mark.req("ADO-1")
def test_schedules_need_neither_django_nor_celery() -> None:
    program = (
        "import sys, punctual.schedules; "
        "assert punctual.schedules.parse('0 3 * * *'); "
        "sys.exit(sorted(name for name in sys.modules if name.split('.')[0] in ('django', 'celery')) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_sentences_name_who_acts() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        if path.suffix in PROSE and path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if FORBIDDEN_WORDS.search(line)
    ]
    assert found == []


def test_only_the_console_and_the_project_touch_the_admin_and_its_theme() -> None:
    outside = [
        module.path
        for module in modules()
        if not module.path.startswith(("console/", "scheduler_project/"))
        and module.path != "punctual/admin.py"
        if any(
            name.startswith(("django.contrib.admin", "unfold", "django.forms"))
            for name in imported(module.tree)
        )
    ]
    assert outside == []


def test_redis_is_recognised_in_its_own_file_only() -> None:
    recognised = [m.path for m in modules() if re.search(r"startswith\(\(?\"(redis|sentinel|valkey)", m.text)]
    assert recognised in ([], ["execution/broker/redis.py"])


def is_vendor_check(node: ast.AST) -> bool:
    """`connection.vendor`, or a call of the function that asks for it."""
    match node:
        case ast.Attribute(attr="vendor") | ast.Call(func=ast.Name(id="is_postgresql")):
            return True
    return False


@pytest.mark.parametrize("room", FLOW)
def test_a_room_asks_for_the_database_vendor_in_one_module_at_most(room: str) -> None:
    vendor_checks = {
        m.path
        for m in modules()
        if m.path.startswith(f"{room}/")
        for node in ast.walk(m.tree)
        if is_vendor_check(node)
    }
    assert len(vendor_checks) <= 1, vendor_checks


def test_a_module_name_has_one_meaning() -> None:
    names = [Path(m.path).stem for m in modules() if "management" not in m.path.split("/")]
    shared = CONVENTIONAL | SAME_MEANING
    repeated = {name: count for name, count in Counter(names).items() if count > 1 and name not in shared}
    assert repeated == {}


def test_no_short_module_has_a_single_importer() -> None:
    importers = defaultdict(set)
    known = {dotted(m): m for m in modules()}
    for m in modules():
        for name in imported(m.tree):
            if name in known and known[name] is not m:
                importers[name].add(m.path)
    crumbs = [
        known[name].path
        for name, paths in importers.items()
        if len(paths) == 1
        and room_of(next(iter(paths))) == room_of(known[name].path)  # another room's module cannot take it in
        and len(known[name].text.splitlines()) < SHORTEST_MODULE
        and Path(known[name].path).stem not in CONVENTIONAL
        and known[name].path not in SHORT_ON_PURPOSE
    ]
    assert crumbs == []


def room_of(path: str) -> str:
    return path.partition("/")[0]


def dotted(module: Module) -> str:
    parts = list(Path(module.path).with_suffix("").parts)
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] in ("punctual", "scheduler_project") else ["punctual", *parts])


def test_every_package_opens_with_a_page() -> None:
    thin = [
        m.path
        for m in modules()
        if m.path.count("/") == 1 and m.path.endswith("/__init__.py")
        if len((ast.get_docstring(m.tree) or "").splitlines()) < 5
    ]
    assert thin == []


def test_the_scans_see_what_they_look_for() -> None:
    example = module("jobs/example.py", "from django.contrib.admin import site\nimport punctual.jobs.store")
    assert list(imported(example.tree)) == [
        "django.contrib.admin",
        "django.contrib.admin.site",
        "punctual.jobs.store",
    ]
    assert dotted(example) == "punctual.jobs.example"
    assert FORBIDDEN_WORDS.search("No" + "body knows")
