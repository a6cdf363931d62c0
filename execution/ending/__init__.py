"""From a result to the end of a run, and of its occurrence.

| question | module |
|---|---|
| does a run succeed, retry, or go to the dead letters? Pure. | `outcome` |
| which values do a result and its outcome give the run? Pure. | `attempt_report` |
| how is a result written? | `report` |
| how does a run end, what follows for its occurrence, what does its report say? Pure. | `steps` |
| when is an occurrence finished? | `settle` |
| which hooks are to be called, by which process, and how did their calls end? | `hook_calls` |
| which failures are of the same kind? | `fingerprint` |
| how is an occurrence or a run canceled? | `cancel` |

Invariants: a result is written only under the token of its claim. Runs of one occurrence share its row lock
while they end; settling takes it exclusively, so no run ends meanwhile. Of two runs that end last, the one
that commits later sees the other, and settles. Completion is decided from rows: the chord's callback, the
last report and the sweeper call the same function.

On failure: a statement that fails leaves the run claimed, and the worker repeats it; when its lease has
expired, the reaper ends the attempt as lost, and a late result changes nothing. A worker that dies between
the end of a run and the next step leaves that step to the sweeper.
"""
