"""Actions that run a part of the sweeper now: catch up, reap, resend, settle (REC-3).

Beats do all of it by themselves, every few seconds. These actions are for operators who do not want to wait,
or who run no beat.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from punctual.jobs.models import Job
from punctual.operations import sweep_runner
from punctual.operations.action import Action, Call, Fact, Preview, Result, Scope, at_least
from punctual.operations.permissions import Permission
from punctual.operations.range_actions import NOT_PLANNED, is_planned
from punctual.operations.sweep_backlog import MAX_COUNTED, Counts, count_all
from punctual.operations.sweep_runner import Sweep, SweepResult, run_sweep
from punctual.recovery.requester import Requester

MAX_INTERACTIVE = 2_000  # rows of each kind that one request of a page handles
NOTHING_TO_DO = "There is nothing to do: beats do this by themselves, every few seconds."
HANDLED = "nothing to do: already handled."
MORE = " There are more: beats handle them by themselves, or repeat the action."
REFUSED = "Messages the broker refused: {:,}. Nothing is lost: beats send them again."
CHANGES = {
    "planned": "planned",
    "in_ranges": "recorded as ranges",
    "recovered": "run late",
    "missed": "recorded as missed",
    "skipped": "skipped",
    "lost": "taken back from silent workers",
    "stale": "ended after their timeout",
    "replaced": "ended for a newer one",
    "admitted": "started",
    "resent": "sent again",
    "asked": "handed to a worker",
}


@dataclass(frozen=True)
class Backlog:
    """A sweep with the words for its counts; `unit` names what is counted, `kinds` each count."""

    sweep: Sweep
    unit: tuple[str, str]
    kinds: Mapping[str, str]

    def preview(self, counts: Counts) -> Preview:
        count = self.total(counts)
        more = any(number >= MAX_COUNTED for number in counts.values())
        facts: list[Fact] = [
            (words, at_least(counts[kind], more=counts[kind] >= MAX_COUNTED))
            for kind, words in self.kinds.items()
        ]
        return Preview(count, facts, self.unit, more=more, hint="" if count else NOTHING_TO_DO)

    def total(self, counts: Counts) -> int:
        """A job can be late for two reasons and counts once."""
        return counts["jobs"] if "jobs" in counts else sum(counts.values())

    def count_and_preview(self, now: datetime, job: Job | None) -> Preview:
        return self.preview(self.sweep.outstanding(now, job))


BACKLOGS = {
    "recover": Backlog(
        sweep_runner.RECOVER,
        ("job", "jobs"),
        {"to_plan": "jobs to plan", "late": "occurrences that were not fired in time"},
    ),
    "reap": Backlog(
        sweep_runner.REAP,
        ("row", "rows"),
        {
            "lost": "runs whose worker is silent",
            "stale": "occurrences past their execution timeout",
            "replaced": "occurrences a newer one replaces",
            "admitted": "occurrences that wait and could start",
            "resent": "messages to send again",
            "asked": "occurrences to settle",
        },
    ),
    "resend": Backlog(
        sweep_runner.RESEND,
        ("message", "messages"),
        {
            "unconfirmed": "messages the broker never confirmed",
            "lost": "messages the broker accepted and lost",
        },
    ),
    "settle": Backlog(
        sweep_runner.SETTLE,
        ("occurrence", "occurrences"),
        {
            "unsettled": "occurrences whose runs have ended and whose next step is missing",
            "hooks": "occurrences that ended and whose hooks were not called",
        },
    ),
}


def preview_all(now: datetime) -> dict[str, Preview]:
    """Preview every sweep; each count is asked for once."""
    counts = count_all(now)
    return {name: backlog.preview(counts[name]) for name, backlog in BACKLOGS.items()}


def result_of(label: str, swept: SweepResult) -> Result:
    problems = (REFUSED.format(swept.failed),) if swept.failed else ()
    message = f"{label}: {_describe(swept)}"
    return Result(sum(swept.changes.values()), message, problems=problems)


def _describe(swept: SweepResult) -> str:
    parts = [f"{number:,} {CHANGES[kind]}" for kind, number in swept.changes.items() if number]
    if not parts:
        return "nothing was done." if swept.failed else HANDLED
    return f"{', '.join(parts)}.{MORE if swept.more else ''}"


def _sweep_action(name: str, label: str, permission: str, description: str) -> Action[None]:
    backlog = BACKLOGS[name]

    def preview(call: Call[None]) -> Preview:
        return backlog.count_and_preview(call.now, None)

    def execute(call: Call[None], requester: Requester) -> Result:
        swept = run_sweep(
            backlog.sweep, requester=requester, now=call.now, limit=call.limit, progress=call.progress
        )
        return result_of(label, swept)

    return Action(
        Scope.PLATFORM,
        name,
        label=label,
        verb=label,
        permission=permission,
        description=description,
        preview=preview,
        execute=execute,
        audit=backlog.sweep.action,
        limit=MAX_INTERACTIVE,
    )


RECOVER = _sweep_action(
    "recover",
    "Catch up",
    Permission.RECOVER_JOB,
    "Past instants that are not planned are planned; late occurrences run or are recorded as missed, as the "
    "recovery strategy of their job says.",
)
REAP = _sweep_action(
    "reap",
    "Reap",
    Permission.REAP_RUN,
    "A whole sweep: runs of silent workers are taken back, occurrences past their timeout end, waiting "
    "occurrences that can start do so; then messages are sent again and ended occurrences are settled.",
)
RESEND = _sweep_action(
    "resend",
    "Resend",
    Permission.RESEND_RUN,
    "The part of a sweep that sends messages again. A second message of a claimed run is ignored.",
)
SETTLE = _sweep_action(
    "settle",
    "Settle",
    Permission.SETTLE_OCCURRENCE,
    "The part of a sweep that settles: workers take the next step of each occurrence or call its hooks.",
)
SWEEPS = (RECOVER, REAP, RESEND, SETTLE)


def _preview_recover_job(call: Call[Sequence[Job]]) -> Preview:
    (job,) = call.target
    return BACKLOGS["recover"].count_and_preview(call.now, job)


def _recover_job(call: Call[Sequence[Job]], requester: Requester) -> Result:
    (job,) = call.target
    swept = run_sweep(
        sweep_runner.RECOVER,
        requester=requester,
        now=call.now,
        job=job,
        limit=call.limit,
        progress=call.progress,
    )
    return result_of(f"{RECOVER.label}, {job.name}", swept)


RECOVER_JOB = Action(
    Scope.JOBS,
    RECOVER.name,
    label=RECOVER.label,
    verb=RECOVER.verb,
    permission=RECOVER.permission,
    description=RECOVER.description,
    preview=_preview_recover_job,
    execute=_recover_job,
    audit=RECOVER.audit,
    available=is_planned,
    unavailable=NOT_PLANNED,
    limit=MAX_INTERACTIVE,
)
