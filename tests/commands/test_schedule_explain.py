import json
from datetime import datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.planning.materialize import plan_due
from tests.console.ledger_rows import make_job

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


@pytest.mark.req("OPS-3")
def test_marks_are_explained_and_hints_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    out = explained(capsys, "30 2 * * *", "--tz", "America/New_York", "-n", "3", "--after", BEFORE_SPRING)
    assert out.splitlines()[-1] == "[gap]: the clock has just jumped ahead"
    for text, hint, caret in (
        ("0 0 * * FRY", "did you mean FRI?", 8),
        ("2027-01-01T09:00:00Z", "for one instant write @once 2027-01-01T09:00:00Z", 0),
        ("posix:0 0 * * FRI", "without the prefix posix:", 14),
        ("kron:0 0 * * * @only(dow=FRY)", "did you mean FRI?", 25),
    ):
        with pytest.raises(CommandError) as caught:
            call_command("punctual", "schedule", "explain", text)
        error, _, mark = str(caught.value).splitlines()
        assert hint in error
        assert mark == "  " + " " * caret + "^"


def test_without_a_job_nominal_times_are_called_that(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("@hourly {stagger:5m}", "@hourly {jitter:5m}", "kron:0 * * * * @win(after,5m)"):
        assert "the starts depend on the job" in explained(capsys, text)
    assert "the starts depend" not in explained(capsys, "@hourly")
    weekend = explained(capsys, "kron:0 9 * * * @only(dow=1-5)", "-n", "1", "--after", BEFORE_SPRING)
    assert "2026-03-07 09:00:00 UTC  2026-03-07T09:00:00+00:00  skipped: unschedulable" in weekend


@pytest.mark.req("OPS-3")
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("schedule", "config"),
    [
        ("@hourly {stagger:10m, jitter:5m}", {}),
        ("@hourly {stagger:10m, window:3m}", {}),
        ("kron:0 * * * * @win(around,30m) @only(hours=0-23)", {}),
        ("kron:0 * * * * @win(after,30m) @policy(deadline=5m)", {}),
        ("kron:0 * * * * @tz(Europe/Berlin) @win(after,30m) {until:2030-01-01}", {}),
        ("posix:0 * * * *", {"spread": "@win(after,30m) @dist(skewEarly)"}),
        ("@every 5m-10m", {}),
        ("@every 7m", {"timezone": "Asia/Seoul"}),
        ("0 */6 * * * {from:2026-01-01}", {"timezone": "Asia/Seoul"}),
    ],
)
def test_the_starts_of_a_named_job_are_those_that_a_beat_plans(
    schedule: str, config: dict[str, str], now: datetime, capsys: pytest.CaptureFixture[str]
) -> None:
    job = make_job("nightly", now, schedule=schedule, config=config)
    later = now + timedelta(hours=9)
    answer = json.loads(
        explained(capsys, "--job", "nightly", "-n", "1000", "--after", now.isoformat(), "--json")
    )
    told = {
        fire["instant"]: fire["starts_at"] or fire["refusal"]
        for fire in answer["fires"]
        if datetime.fromisoformat(fire["instant"]) <= later
    }
    plan_due(later)
    rows = Occurrence.objects.filter(job=job, scheduled_for__lte=later)
    assert len(rows) > 1
    assert told == {
        utc_text(row.scheduled_for): row.reason if row.state == "skipped" else utc_text(row.run_at)
        for row in rows
    }


def utc_text(instant: datetime) -> str:
    text = instant.isoformat(timespec="milliseconds" if instant.microsecond else "seconds")
    return text.replace("+00:00", "Z")


@pytest.mark.req("CHX-13")
@pytest.mark.django_db
def test_what_is_left_of_max_and_what_holds_the_job_are_told(
    now: datetime, capsys: pytest.CaptureFixture[str]
) -> None:
    job = make_job("nightly", now, schedule="@hourly {max:3, stagger:10m, jitter:1m}")
    Cursor.objects.filter(job=job).update(starts=1)
    out = explained(capsys, "--job", "nightly")
    assert len([line for line in out.splitlines() if line.startswith("  2")]) == 2
    assert "job nightly: stagger " in out
    assert "jitter below 1m" in out
    Job.objects.update(paused_at=now)
    assert "warning paused: the job is paused; nothing starts" in explained(capsys, "--job", "nightly")
    Job.objects.update(enabled=False)
    assert "warning stopped" in explained(capsys, "--job", "nightly")
    Job.objects.update(removed_at=now)
    assert "warning removed" in explained(capsys, "--job", "nightly")


@pytest.mark.django_db
def test_a_text_can_be_tried_as_the_schedule_of_a_job(
    now: datetime, capsys: pytest.CaptureFixture[str]
) -> None:
    make_job("nightly", now, schedule="@hourly", config={"spread": "@win(after,1h)"})
    out = explained(capsys, "@daily", "--job", "nightly")
    assert "canonical 0 0 * * *" in out
    assert "job nightly: spread @win(after,1h): spread over 1 hour after that time" in out
    with pytest.raises(CommandError, match="E010"):
        call_command("punctual", "schedule", "explain", "@dayly", "--job", "nightly")
    with pytest.raises(CommandError, match="expected a schedule text or --job NAME"):
        call_command("punctual", "schedule", "explain")
