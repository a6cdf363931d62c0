import json

import pytest
from django.core.management import CommandError, call_command

BEFORE_SPRING = "2026-03-07T00:00:00Z"


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    call_command("punctual", "schedule", "explain", *words)
    return capsys.readouterr().out


@pytest.mark.req("OPS-3")
@pytest.mark.req("CHX-6")
def test_a_schedule_is_explained_in_words_with_its_next_fires_and_dst_marks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = explained(capsys, "30 2 * * *", "--tz", "America/New_York", "-n", "3", "--after", BEFORE_SPRING)
    assert "02:30" in out.splitlines()[0]
    assert "2026-03-07 07:30:00 UTC  2026-03-07T02:30:00-05:00" in out
    assert "2026-03-08 07:00:00 UTC  2026-03-08T03:00:00-04:00  [gap]" in out
    assert "2026-03-09 06:30:00 UTC  2026-03-09T02:30:00-04:00" in out


@pytest.mark.req("OPS-3")
def test_json_holds_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(explained(capsys, "@hourly", "-n", "2", "--json", "--after", BEFORE_SPRING))
    assert (answer["is_valid"], answer["canonical"]) == (True, "0 * * * *")
    assert [fire["instant"] for fire in answer["fires"]] == ["2026-03-07T01:00:00Z", "2026-03-07T02:00:00Z"]


@pytest.mark.req("CHX-14")
def test_a_bad_text_is_refused_with_every_error_and_its_place() -> None:
    with pytest.raises(CommandError) as caught:
        call_command("punctual", "schedule", "explain", "61 25 * * *")
    assert str(caught.value).splitlines() == [
        "E002 minute: value 61 out of range [0, 59]",
        "  61 25 * * *",
        "  ^",
        "E003 hour: value 25 out of range [0, 23]",
        "  61 25 * * *",
        "     ^",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["@hourly", "-n", "1001"], "-n 1001: expected 0 to 1000"),
        (["@hourly", "--after", "soon"], "--after 'soon': expected an ISO 8601 instant"),
        (["@hourly", "--after", "2026-03-07"], "expected an offset"),
        (["@hourly", "--tz", "Mars/Olympus"], "Mars/Olympus"),
    ],
)
def test_a_bad_option_is_named(words: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message.replace("(", "\\(")):
        call_command("punctual", "schedule", "explain", *words)


def test_a_schedule_that_is_over_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no further fires" in explained(capsys, "@once 2020-01-01T00:00:00Z")
