"""Every schedule text of the documentation parses, in code blocks and in running text."""

import re
from datetime import UTC, datetime

import pytest

from punctual import schedules
from punctual.schedules.chronex.options import KEYS
from tests.docs.markdown import page, pages

REFERENCE = datetime(2026, 1, 1, tzinfo=UTC)
COMMENT = re.compile(r"\s{2,}# .*$")
# What running text shows in backticks and can only be a schedule: a marker, or five or six cron fields.
MARKED = re.compile(r"(@(every|once) \S+|@[a-z]+ly|@midnight|TZ=\S+ .+|(posix|iso8601|once|kron):.+)")
FIELDS = re.compile(r"[\d*,/A-Z#LW-]+( [\d*,/A-Z#LW-]+){4,5}( \{.*\})?")

BOXED = [
    pytest.param(COMMENT.sub("", line), id=f"{block.page}: {COMMENT.sub('', line)}")
    for item in pages()
    for block in item.blocks_in("schedule")
    for line in block.text.splitlines()
    if line.strip()
]
INLINE = [
    pytest.param(code, id=f"{item.path}: {code}")
    for item in pages()
    for code in sorted(set(item.inline_code))
    if "…" not in code and (MARKED.fullmatch(code) or FIELDS.fullmatch(code))
]


@pytest.mark.parametrize("text", [*BOXED, *INLINE])
def test_a_schedule_text_parses(text: str) -> None:
    assert str(schedules.parse(text, reference=REFERENCE, trigger_id="docs"))


def test_an_alias_stands_for_what_its_comment_says() -> None:
    (box,) = [block for block in page("docs/expressions.md").blocks_in("schedule") if "@yearly" in block.text]
    pairs = [re.split(r"\s+# ", line) for line in box.text.splitlines()]
    assert len(pairs) == 7
    for alias, meaning in pairs:
        assert str(schedules.parse(alias)) == str(schedules.parse(meaning))


def test_every_option_is_in_the_table() -> None:
    rows = page("docs/expressions.md").table("Options")
    named = {name.strip() for row in rows for name in row[0].split(",")}
    assert named == set(KEYS)


def test_every_kind_is_shown() -> None:
    text = page("docs/expressions.md").text
    assert [kind for kind in schedules.kind_names() if kind != "chronex" and f"\n{kind}:" not in text] == []
