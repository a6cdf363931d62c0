"""Write docs/conformance.md from requirements and marks, and find where the two disagree."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from tests.conformance.marks import Marks
from tests.conformance.requirements import ROOT, Requirement

DOCUMENT = ROOT / "docs" / "conformance.md"
CHAPTERS = {
    "CHX": "Chronex expressions",
    "PSX": "POSIX cron",
    "ISO": "ISO 8601 intervals and single instants",
    "KRN": "Deterministic decisions",
    "JOB": "Jobs",
    "OCC": "Occurrences",
    "EXE": "Execution",
    "TSK": "Task contracts",
    "REC": "Recovery",
    "POL": "Polling scheduler",
    "OPS": "Operations",
    "ADO": "Adoption",
    "WRK": "Workflows",
    "LIM": "Limits",
    "API": "HTTP API",
    "ALR": "Alerts",
    "TEL": "Telemetry",
    "CON": "Console",
    "LAB": "The time lab",
    "SCL": "Scale",
    "PRF": "Proof",
}


def unproven(requirements: Iterable[Requirement], marks: Marks) -> list[str]:
    """Return the ids of requirements that are marked as kept and that no test proves."""
    return [item.id for item in requirements if item.since and not marks.get(item.id)]


def unknown(requirements: Iterable[Requirement], marks: Marks) -> dict[str, list[str]]:
    """Return the marks that name no requirement, with the tests that carry them."""
    ids = {item.id for item in requirements}
    return {id_: sorted(tests) for id_, tests in sorted(marks.items()) if id_ not in ids}


def render(requirements: list[Requirement], marks: Marks) -> str:
    return "\n".join([*_head(requirements, marks), *_chapters(requirements, marks)]) + "\n"


def _head(requirements: list[Requirement], marks: Marks) -> Iterator[str]:
    kept = [item for item in requirements if item.since]
    proven = [item for item in requirements if marks.get(item.id)]
    yield "# Conformance"
    yield ""
    yield "Tests by the requirement they prove. `python -m tests.conformance` writes this page; do not edit."
    yield ""
    yield (
        f"{len(requirements)} requirements, {len(kept)} kept, "
        f"{len(requirements) - len(kept)} planned; {len(proven)} have tests."
    )


def _chapters(requirements: list[Requirement], marks: Marks) -> Iterator[str]:
    for prefix, items in groupby(requirements, key=lambda item: item.id.partition("-")[0]):
        yield ""
        yield f"## {CHAPTERS[prefix]}"
        for item in items:
            status = f"since {item.since}" if item.since else "planned"
            yield ""
            yield f"**{item.id}** {item.text}. *({status})*"
            yield from _tests(marks.get(item.id, set()))


def _tests(tests: set[str]) -> Iterator[str]:
    if tests:
        yield ""
    for test in sorted(tests):
        path, _, name = test.partition("::")
        yield f"- [`{path.removeprefix('tests/')}`](../{path}) {name.replace('::', ' · ')}"
