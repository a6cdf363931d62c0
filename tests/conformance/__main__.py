"""`python -m tests.conformance`: rewrite docs/conformance.md."""

from tests.conformance.marks import marks_in
from tests.conformance.report import DOCUMENT, render
from tests.conformance.requirements import ROOT, SOURCE, read

DOCUMENT.write_text(render(read(SOURCE.read_text()), marks_in(ROOT / "tests", ROOT)))
