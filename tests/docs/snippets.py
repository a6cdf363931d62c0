"""A page's Python blocks → run in order, as the parts of one file, their jobs synced to rows."""

import doctest
from types import CodeType
from typing import Any

from jobs.registry import registry
from tests.docs.markdown import ROOT, Block, Page
from tests.harness import Harness

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(page: Page, harness: Harness) -> dict[str, Any]:
    """The names the page's blocks leave behind; a block sees what the ones before it defined."""
    names: dict[str, Any] = {"__name__": "docs." + page.path.removesuffix(".md").replace("/", ".")}
    for block in page.blocks_in("python", "pycon"):
        if block.language == "python":
            exec(code(block), names)  # noqa: S102 - the project's own documentation
        else:
            converse(block, names)
        if registry.jobs and all(job.tasks for job in registry.jobs.values()):
            harness.sync()
    return names


def code(block: Block) -> CodeType:
    """Errors and tracebacks name the page and the line."""
    return compile("\n" * (block.line - 1) + block.text, str(ROOT / block.page), "exec")


def converse(block: Block, names: dict[str, Any]) -> None:
    """A dialogue with the interpreter says what Python says."""
    test = doctest.DocTestParser().get_doctest(block.text, names, str(block), block.page, block.line)
    answers: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=answers.append, clear_globs=False)
    assert not answers, "".join(answers)
    names.update(test.globs)
