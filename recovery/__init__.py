"""The safety net: repair what a crash, an outage or a lost message left behind, and redo work on request.

Beats call most of it in every tick or every two seconds; commands and operators call the rest. Any number of
processes may run any of it at the same time: every step takes row locks or writes guarded updates, so one
loss is handled once, and a step that finds nothing left to do returns zero counts.

Invariants
- Recovery uses the normal paths. A late occurrence is marked and then fired like any other; a lost attempt is
  reported like a failure; a replay or a backfill inserts ordinary pending occurrences.
- Each step is `step(now, ...) -> counts` and owns its transaction. A process that dies in the middle leaves
  the rows as they were; the next sweep repeats the step.
- Messages are sent after the commit. A message that cannot be sent stays unconfirmed; a later sweep sends it.
- Pruning deletes only finished occurrences, and adds them to the tallies in the same transaction, so the
  published counters never decrease. Unresolved dead letters are never pruned.

Which module answers which question
- `catchup`: what happens to occurrences that were not fired in time?
- `sweeper/`: who repairs expired leases, unsent messages, timeouts, unsettled occurrences, free slots?
- `replay`, `backfill`, `dead_letters`: how is work done again, or done for the past?
- `retention` (which rows may go), `pruning` (how they are deleted), `counters` (totals that include them).
- `verification/`: does the ledger hold every occurrence that the schedules demanded?
- `time_range`: a validated range of past instants. `requester`: who asks for a change, and who records it.
- `models`: tallies of pruned rows, and the progress of pruning.
"""
