"""Operations: what a person can do, each as one `Action`.

An action names its permission, its parameters, a preview that only reads, and an execution that writes and
leaves an audit entry. It knows neither forms nor pages: the console, the commands and any other interface use
the same actions.

Invariants:
- A preview changes nothing. What it counted is pinned (`Parameter.pinned`), so that the execution does what
  the operator saw.
- One request leaves at most one audit entry. Its count grows inside the transaction of each batch; a request
  that changes nothing leaves none. Run, pause, resume, stop, start and remove leave one entry per job.
- Losing a race is a result with a smaller count, not an error. A wrong value raises a PunctualError before
  anything is written.
- If the process dies, committed batches stay, the entry counts exactly these and is not marked as finished.
  Repeating the request is safe.

| question | module |
|---|---|
| what is an action, a preview, a result? | `action` |
| which actions are there? | `action_registry` |
| run now, pause, resume, stop, start, remove | `job_actions`; by name, as the public API, `job_requests` |
| replay, cancel, skip occurrences | `occurrence_actions` |
| backfill or replay a range of a job | `range_actions` |
| replay or purge dead letters | `dead_letter_actions` |
| catch up, reap, resend, settle now | `sweep_actions`, run by `sweep_runner`, counted by `sweep_backlog` |
| delete what is older than the retention | `prune_actions` |
| which permissions and groups are there? | `permissions` |
| who did what, when and why | `audit`, `models` |

A new action is a value in one of these modules and a line in `action_registry`.
"""
