"""Run the Python blocks of a page in order, as the parts of one file, and sync their jobs to rows."""

import doctest
from types import CodeType
from typing import Any

from punctual.jobs.declaration.registry import registry
from tests.docs.markdown import ROOT, Block, Page
from tests.harness import Harness

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(page: Page, harness: Harness) -> dict[str, Any]:
    """Return the names that the page's blocks define; a block sees the names of the blocks before it."""
    names: dict[str, Any] = {"__name__": "docs." + page.path.removesuffix(".md").replace("/", ".")}
    for block in page.blocks_in("python", "pycon"):
        if block.language == "python":
            exec(code(block), names)  # noqa: S102 - the project's own documentation
        else:
            check_output(block, names)
        if registry.jobs and all(job.tasks for job in registry.jobs.values()):
            harness.sync()
    return names


def code(block: Block) -> CodeType:
    """Compile a block so that errors and tracebacks name the page and the line."""
    return compile("\n" * (block.line - 1) + block.text, str(ROOT / block.page), "exec")


def check_output(block: Block, names: dict[str, Any]) -> None:
    """Compare the output in a `pycon` block with what Python prints."""
    test = doctest.DocTestParser().get_doctest(block.text, names, str(block), block.page, block.line)
    answers: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=answers.append, clear_globs=False)
    assert not answers, "".join(answers)
    names.update(test.globs)
