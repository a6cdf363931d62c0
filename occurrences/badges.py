"""A state of the ledger → its badge; the same word looks the same on every level."""

from django.utils.safestring import SafeString

from jobs.display import badge
from occurrences.states import AttemptState, OccurrenceState, RunState

State = OccurrenceState | RunState | AttemptState

# value → (tone, shape)
LOOKS = {
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


def state_badge(state: State, reason: str = "") -> SafeString:
    tone, shape = LOOKS[state.value]
    return badge(str(state.label), tone, shape, title=reason)
