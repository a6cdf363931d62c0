"""Rules that every row of the ledger satisfies; the database refuses rows that break one."""

from django.db.models import F, Q

from punctual.occurrences.states import (
    ATTEMPT_FINAL,
    OCCURRENCE_ACTIVE,
    OCCURRENCE_FINAL,
    OCCURRENCE_NOT_RUN,
    RUN_FINAL,
    RUN_HELD,
    AttemptState,
    OccurrenceState,
    RunState,
)

OCCURRENCE_RULES = {
    "occurrence_state_is_known": Q(state__in=OccurrenceState.values),
    "occurrence_finished_iff_final": Q(state__in=OCCURRENCE_FINAL, finished_at__isnull=False)
    | (~Q(state__in=OCCURRENCE_FINAL) & Q(finished_at__isnull=True)),
    "occurrence_running_has_started": ~Q(state="running") | Q(started_at__isnull=False),
    "occurrence_active_was_fired": ~Q(state__in=OCCURRENCE_ACTIVE) | Q(fired_at__isnull=False),
    # A slot is held, or waited for, by active occurrences only, and never both.
    "occurrence_slot_while_active": Q(holds_slot=False, slot_wanted_at__isnull=True)
    | Q(holds_slot=True, slot_wanted_at__isnull=True, state__in=OCCURRENCE_ACTIVE)
    | Q(holds_slot=False, slot_wanted_at__isnull=False, state__in=OCCURRENCE_ACTIVE),
    # Only instants that never run may share a row.
    "occurrence_range_never_runs": Q(spans_until__isnull=True, instants=1)
    | Q(
        spans_until__isnull=False,
        spans_until__gt=F("scheduled_for"),
        instants__gt=1,
        state__in=OCCURRENCE_NOT_RUN,
    ),
}

RUN_RULES = {
    "run_state_is_known": Q(state__in=RunState.values),
    "run_finished_iff_final": Q(state__in=RUN_FINAL, finished_at__isnull=False)
    | (~Q(state__in=RUN_FINAL) & Q(finished_at__isnull=True)),
    "run_claimed_iff_held": Q(state__in=RUN_HELD, claim_token__isnull=False, lease_until__isnull=False)
    | (~Q(state__in=RUN_HELD) & Q(claim_token__isnull=True, lease_until__isnull=True)),
    "run_parked_while_waiting": Q(parked_at__isnull=True) | Q(state__in=("scheduled", "retry")),
    "run_resolved_only_when_dead": Q(resolved_at__isnull=True, resolution="")
    | (Q(state="dlq", resolved_at__isnull=False) & ~Q(resolution="")),
}

ATTEMPT_RULES = {
    "attempt_state_is_known": Q(state__in=AttemptState.values),
    "attempt_finished_iff_final": Q(state__in=ATTEMPT_FINAL, finished_at__isnull=False)
    | Q(state="running", finished_at__isnull=True),
}
