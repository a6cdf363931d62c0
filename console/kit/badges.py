"""How states look: badges in lists and pages, groups of states in charts."""

from collections.abc import Mapping

from django.utils.safestring import SafeString

from punctual.console.kit.display import badge
from punctual.occurrences.states import AttemptState, OccurrenceState, RunState

State = OccurrenceState | RunState | AttemptState

# The tone and shape of a state; a value looks the same for occurrences, runs and attempts.
STATE_LOOKS = {
    "pending": ("calm", "ring"),
    "scheduled": ("calm", "ring"),
    "queued": ("calm", "bars"),
    "dispatched": ("busy", "half"),
    "claimed": ("busy", "half"),
    "running": ("busy", "play"),
    "retry": ("warn", "turn"),
    "snoozed": ("calm", "turn"),
    "released": ("calm", "half"),
    "completed": ("good", "check"),
    "success": ("good", "check"),
    "completed_with_errors": ("warn", "alert"),
    "failed": ("bad", "cross"),
    "failed_stale": ("bad", "bars"),
    "timeout": ("bad", "bars"),
    "dlq": ("bad", "square"),
    "lost": ("bad", "ring"),
    "canceled": ("calm", "slash"),
    "skipped": ("calm", "skip"),
    "missed": ("warn", "slash"),
}


S = OccurrenceState
# States of a chart by class of the style sheet, drawn from the floor up: failures are on top.
CHART_LOOKS: Mapping[str, tuple[OccurrenceState, ...]] = {
    "none": (S.SKIPPED, S.MISSED, S.CANCELED),
    "planned": (S.PENDING, S.QUEUED),
    "busy": (S.DISPATCHED, S.RUNNING),
    "good": (S.COMPLETED,),
    "warn": (S.COMPLETED_WITH_ERRORS,),
    "bad": (S.FAILED, S.FAILED_STALE),
}
CHART_LOOK = {state: look for look, states in CHART_LOOKS.items() for state in states}
CHART_WORDS = {
    "good": "completed",
    "warn": "completed with errors",
    "bad": "failed",
    "busy": "under way",
    "planned": "planned",
    "none": "not run",
}


def state_badge(state: State, reason: str = "") -> SafeString:
    tone, shape = STATE_LOOKS[state.value]
    return badge(str(state.label), tone, shape, title=reason)
