"""The tutorial from its first command to its last, in a copy of the project, with real processes."""

import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.test_up import Up
from tests.docs.clone import Clone, make_clone
from tests.docs.markdown import ROOT, page
from tests.guardian import Guardian
from tests.servers import make_folder

TUTORIAL = page("docs/tutorial.md")
DEADLINE = 200.0  # seconds; the longest wait is for a full minute and two retries

pytestmark = [pytest.mark.cluster, pytest.mark.early, pytest.mark.timeout(600)]


class Demo(Up):
    """`PUNCTUAL_APPS=shop make demo`, without the installation of packages."""

    def __init__(self, clone: Clone, guardian: Guardian) -> None:
        self.cwd = clone.folder
        super().__init__(clone.folder / "var", guardian, "--demo", PUNCTUAL_APPS="shop")


@pytest.fixture
def clone(guardian: Guardian) -> Clone:
    folder = make_folder("punctual-tutorial-")
    guardian.remove(folder)
    return make_clone(folder / "clone")


@pytest.fixture
def demo(clone: Clone, guardian: Guardian) -> Iterator[Callable[[], Up]]:
    assert "$(BIN)/python manage.py up --demo\n" in (ROOT / "Makefile").read_text()
    started: list[Up] = []

    def start() -> Up:
        started.append(Demo(clone, guardian))
        started[-1].wait_until_ready()
        return started[-1]

    yield start
    for instance in started:
        instance.end()


def wait_for(answer: Callable[[], str], expected: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while expected not in answer():
        assert time.monotonic() < deadline, f"{expected}\n{answer()}"
        time.sleep(0.5)


def apply_change(text: str, diff: str) -> str:
    """The text with the lines of a diff exchanged."""
    old = "".join(f"{line[1:]}\n" for line in diff.splitlines() if not line.startswith("+"))
    new = "".join(f"{line[1:]}\n" for line in diff.splitlines() if not line.startswith("-"))
    assert old in text
    return text.replace(old, new)


def test_the_tutorial_works_as_written(clone: Clone, demo: Callable[[], Up]) -> None:
    _, make_app, _, replay, use = (block.text for block in TUTORIAL.blocks_in("sh"))
    jobs = "\n\n".join(block.text for block in TUTORIAL.blocks_in("python"))
    (fix,) = (block.text for block in TUTORIAL.blocks_in("diff"))
    list_groups = "\n".join(replay.splitlines()[:2])

    clone.sh(make_app)
    clone.write("shop/jobs.py", jobs)
    first = demo()
    wait_for(lambda: first.text, "hello from greet, due at")
    wait_for(lambda: clone.sh(list_groups), "invoice 4711 has no customer")
    assert first.stop(signal.SIGINT) == 0

    clone.write("shop/jobs.py", apply_change(jobs, fix))
    second = demo()
    clone.sh(replay)
    clone.sh(use)
    wait_for(lambda: second.text, "booked what was due at")
    assert "4711" not in clone.sh(list_groups), "a replayed dead letter is closed"
    assert second.stop(signal.SIGINT) == 0
