"""From a result to the end of a run, and of its occurrence.

| question | module |
|---|---|
| does a run succeed, retry, or go to the dead letters? Pure. | `outcome` |
| how is a result written? | `report`; plain successes on PostgreSQL: `successes` |
| what follows for the occurrence: the next task, a cancellation, the end? Pure. | `steps` |
| when is an occurrence finished? | `settle` |
| who calls `on_start` and `on_complete`? | `hooks` |
| what does the execution report say? | `summary` |
| which failures are of the same kind? | `fingerprint` |
| how is an occurrence or a run canceled? | `cancel` |

Invariants: a result is written only under the token of its claim, in one transaction with the roll-up. The
row lock of the occurrence serializes roll-ups, so the last run to end always settles it. Completion is
decided from rows: the chord's callback, the last report and the sweeper call the same function.

On failure: a transaction that fails leaves the run claimed, and the worker retries; when its lease has
expired, the reaper ends the attempt as lost, and a late result changes nothing.
"""
