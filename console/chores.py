"""A chore of the safety net → how much there is to do, in words, and then it is done.

Beats do all of it by themselves; this is for whoever will not wait, or has no beat.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from console.shown import Done, Facts, Shown, at_least
from jobs.models import Job
from recovery import chores
from recovery.audit import Asked
from recovery.chores import Chore, Performed, perform
from recovery.outstanding import FURTHEST, Counts, everything

MOST = 2_000  # rows a request deals with, of each kind
NOTHING = "There is nothing to do: beats do this by themselves, every few seconds."
QUICKER = "nothing was left to do; somebody was quicker."
MORE = " There are more: beats go on with them by themselves, or press again."
REFUSED = "Messages the broker did not take: {:,}. Nothing is lost: beats go on trying."
DONE = {
    "planned": "planned",
    "in_ranges": "written down as ranges",
    "recovered": "run after all",
    "missed": "recorded as missed",
    "skipped": "skipped",
    "lost": "taken back from silent workers",
    "stale": "ended past their time",
    "replaced": "ended for a newer one",
    "admitted": "started",
    "resent": "sent again",
    "asked": "handed to a worker",
}


@dataclass(frozen=True)
class Offer:
    """`kinds` says what each count of the chore is a count of; `what` is one of them, and many."""

    label: str
    permission: str
    meaning: str
    chore: Chore
    what: tuple[str, str]
    kinds: Mapping[str, str]
    danger: bool = False

    def count(self, found: Counts) -> int:
        """Jobs that are behind are behind for one of two reasons, or for both."""
        return found["jobs"] if "jobs" in found else sum(found.values())


OFFERS = {
    "recover": Offer(
        "Catch up", "recovery.recover_job",
        "Instants that passed unplanned are planned; what is late runs after all or is recorded as missed, "
        "as its job's recovery strategy says.",
        chores.RECOVER, ("job", "jobs"),
        {"to_plan": "jobs to plan", "late": "occurrences nobody fired in time"},
    ),
    "reap": Offer(
        "Reap", "recovery.reap_run",
        "A whole sweep: what silent workers hold is taken back, what is past its time ends, whoever could "
        "start starts; then messages are sent again, and what is over is settled.",
        chores.REAP, ("row", "rows"),
        {"lost": "runs whose worker fell silent", "stale": "occurrences past their execution timeout",
         "replaced": "occurrences a newer one replaces", "admitted": "occurrences that wait and could start",
         "resent": "messages to send again", "asked": "occurrences to settle"},
    ),
    "resend": Offer(
        "Resend", "recovery.resend_run",
        "The part of a sweep that sends: messages go out again. The second one of a claimed run is dropped.",
        chores.RESEND, ("message", "messages"),
        {"unconfirmed": "messages the broker never confirmed",
         "lost": "messages it accepted and has no more, unclaimed for long"},
    ),
    "settle": Offer(
        "Settle", "recovery.settle_occurrence",
        "The part of a sweep that settles: workers take the next step of each, or call the hooks it owes.",
        chores.SETTLE, ("occurrence", "occurrences"),
        {"unsettled": "occurrences whose runs are over, and whose next step nobody took",
         "hooks": "occurrences that ended, and whose hooks nobody called"},
    ),
}  # fmt: skip


def look(offer: Offer, now: datetime, job: Job | None = None) -> Shown:
    return shown(offer, offer.chore.outstanding(now, job), job)


def look_at_all(now: datetime) -> dict[str, Shown]:
    found = everything(now)
    return {name: shown(offer, found[offer.chore.action]) for name, offer in OFFERS.items()}


def shown(offer: Offer, found: Counts, job: Job | None = None) -> Shown:
    facts: Facts = [("job", job.name)] if job else []
    facts += told(offer, found)
    count = offer.count(found)
    more = any(number >= FURTHEST for number in found.values())
    hint = "" if count else NOTHING
    return Shown(count, facts, said=at_least(count, more=more), hint=hint, what=offer.what)


def told(offer: Offer, found: Counts) -> list[tuple[str, object]]:
    """Each kind with its number, as far as anybody counts."""
    return [
        (words, at_least(found[kind], more=found[kind] >= FURTHEST)) for kind, words in offer.kinds.items()
    ]


def do(offer: Offer, asked: Asked, now: datetime, job: Job | None = None) -> Done:
    done = perform(offer.chore, asked=asked, now=now, job=job, most=MOST)
    whose = f"{offer.label}, {job.name}" if job else offer.label
    trouble = REFUSED.format(done.failed) if done.failed else ""
    return Done(sum(done.done.values()), f"{whose}: {_sentence(done)}", trouble)


def _sentence(done: Performed) -> str:
    parts = [f"{number:,} {DONE[kind]}" for kind, number in done.done.items() if number]
    if not parts:
        return QUICKER if not done.failed else "nothing was done."
    return f"{', '.join(parts)}.{MORE if done.more else ''}"
