"""Every program and command of the documentation runs in a fresh process, as a reader would run it.

Each page has a test that says what a reader does with its blocks. A block that no test runs is named in
ELSEWHERE, with the reason.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.clone import Clone, make_clone
from tests.docs.markdown import Block, page, pages

RUN = ("python", "pycon", "sh")
# Page and first line of a block that is proven elsewhere.
ELSEWHERE = {
    ("README.md", "make demo"): "tests/cluster/test_up.py starts what it starts",
    ("README.md", "make test"): "this run",
    ("CONTRIBUTING.md", "make check"): "CI",
    ("docs/tutorial.md", "make demo"): "tests/cluster/test_tutorial.py",
    ("docs/tutorial.md", "PUNCTUAL_APPS=shop make demo"): "tests/cluster/test_tutorial.py",
    ("docs/tutorial.md", "mkdir shop"): "tests/cluster/test_tutorial.py",
    ("docs/tutorial.md", "export PUNCTUAL_APPS=shop,examples.demo"): "tests/cluster/test_tutorial.py",
    ("docs/tutorial.md", "from punctual import Job, Retry, scheduled"): "tests/cluster/test_tutorial.py",
    ("docs/tutorial.md", 'invoices = Job("invoices", "0 * * * * *", retry=Retry(2, "3s"))'): (
        "tests/cluster/test_tutorial.py"
    ),
    ("docs/operations.md", "cp docker/.env.example docker/.env"): "tests/docs/test_docker.py",
}
PAGES = ("README.md", "docs/concepts.md", "docs/definitions.md", "docs/expressions.md", "docs/operations.md")
PAGES_HERE = {*PAGES, "docs/polling.md"}

# A block that steers jobs, for a shell; the others declare something, for a module.
CALLS = re.compile(r"^(\w+ = )?(pause|resume|trigger)\(", re.MULTILINE)
# Runs blocks one after the other, as they are typed into one prompt of Python.
PROMPT = """
import doctest, json, sys

names = {"__name__": "__main__"}
for language, text in json.load(sys.stdin):
    if language == "python":
        exec(text, names)
        continue
    test = doctest.DocTestParser().get_doctest(text, names, "page", "page", 0)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if doctest.DocTestRunner(optionflags=flags).run(test, clear_globs=False).failed:
        sys.exit(1)
    names.update(test.globs)
"""


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return make_clone(tmp_path / "clone")


def texts(path: str, language: str) -> list[str]:
    return [block.text for block in page(path).blocks_in(language)]


def test_every_block_is_run_here_or_elsewhere() -> None:
    blocks: list[Block] = [block for item in pages() for block in item.blocks_in(*RUN)]
    unknown = [
        str(block)
        for block in blocks
        if block.page not in PAGES_HERE and (block.page, block.text.splitlines()[0]) not in ELSEWHERE
    ]
    assert unknown == [], "say in this module how a reader runs them"
    known = {(block.page, block.text.splitlines()[0]) for block in blocks}
    assert set(ELSEWHERE) <= known, "no longer in the documentation"


def test_the_readme_s_module_is_discovered(clone: Clone) -> None:
    clone.add_app("shop", *texts("README.md", "python"))
    jobs = "python manage.py migrate -v0 && python manage.py punctual jobs sync"
    clone.sh(jobs, PUNCTUAL_APPS="shop")
    listed = clone.sh("python manage.py punctual jobs list", PUNCTUAL_APPS="shop")
    assert "heartbeat" in listed
    assert "nightly-etl" in listed


def test_the_blocks_of_concepts_declare_jobs_and_steer_them(clone: Clone) -> None:
    blocks = texts("docs/concepts.md", "python")
    typed = [text for text in blocks if CALLS.search(text)]
    assert len(typed) == 3
    clone.add_app("shop", "\n\n".join(text for text in blocks if text not in typed))
    clone.sh("python manage.py migrate -v0", PUNCTUAL_APPS="shop")
    clone.sh("python manage.py punctual jobs sync", PUNCTUAL_APPS="shop")
    clone.sh("python manage.py shell", stdin="\n".join(typed), PUNCTUAL_APPS="shop")
    listed = clone.sh(
        "python manage.py punctual occurrences list --job sales-report --json", PUNCTUAL_APPS="shop"
    )
    causes = [row["cause"] for row in json.loads(listed)]
    assert causes.count("manual") == 2, "one with a key and one without"


def test_the_commands_and_the_test_of_definitions_run(clone: Clone) -> None:
    clone.add_app("shop", *texts("README.md", "python"))
    clone.sh("python manage.py migrate -v0", PUNCTUAL_APPS="shop")
    clone.sh("python manage.py punctual jobs sync", PUNCTUAL_APPS="shop")
    files, imports = texts("docs/definitions.md", "sh")
    clone.sh(files, PUNCTUAL_APPS="shop")
    assert "nightly-etl" in (clone.folder / "fleet.yaml").read_text()
    clone.sh(imports, PUNCTUAL_APPS="shop")
    settings = "[pytest]\nDJANGO_SETTINGS_MODULE = scheduler_project.settings\npythonpath = ..\n"
    clone.write("suite/pytest.ini", settings)
    clone.write("suite/conftest.py", 'pytest_plugins = ["punctual.testing"]\n')
    clone.write("suite/test_report.py", *texts("docs/definitions.md", "python"))
    assert "1 passed" in clone.sh("cd suite && python -m pytest")


def test_schedules_need_no_settings_and_are_explained_by_the_command(clone: Clone) -> None:
    blocks = [
        (block.language, block.text) for block in page("docs/expressions.md").blocks_in("python", "pycon")
    ]
    clone.write("prompt.py", PROMPT)
    clone.sh("python prompt.py", stdin=json.dumps(blocks))
    clone.add_app("shop", *texts("README.md", "python"))
    clone.sh("python manage.py migrate -v0", PUNCTUAL_APPS="shop")
    clone.sh("python manage.py punctual jobs sync", PUNCTUAL_APPS="shop")
    (explains,) = texts("docs/expressions.md", "sh")
    told = clone.sh(explains, PUNCTUAL_APPS="shop")
    assert "job nightly-etl: starts at the nominal times" in told
    assert "job nightly-etl: jitter below 5m" in told


def test_the_commands_of_operations_prepare_an_installation(clone: Clone) -> None:
    _, prepare = texts("docs/operations.md", "sh")
    variables = {
        "DATABASE_URL": f"sqlite:///{clone.folder / 'db.sqlite3'}",
        "SECRET_KEY": "x" * 60,
        "ALLOWED_HOSTS": "punctual.example.org",
        "BROKER_URL": "redis://127.0.0.1:1/0",
    }
    clone.sh(prepare, **variables)
    clone.sh("python manage.py migrate --check", **variables)


@pytest.fixture
def prices(clone: Clone) -> Iterator[Clone]:
    """The program of the polling page, started by the commands that follow it."""
    (program,) = texts("docs/polling.md", "python")
    clone.write("prices.py", program)
    (commands,) = texts("docs/polling.md", "sh")
    migrate, start = commands.splitlines()
    clone.sh(migrate)
    process = clone.start(f"exec {start}")
    try:
        yield clone
        process.terminate()
        assert process.wait(timeout=60) == 0, clone.output
    finally:
        process.kill()
        process.wait()


def test_the_polling_program_runs_its_callbacks_until_it_is_terminated(prices: Clone) -> None:
    command = "python manage.py punctual occurrences list --job refresh-prices --json"
    assert command.removesuffix(" --json") in page("docs/polling.md").text
    deadline = time.monotonic() + 90
    while "completed" not in prices.sh(f"{command} || true"):  # it has no job before it is initialized
        assert time.monotonic() < deadline, prices.output
        time.sleep(0.2)
