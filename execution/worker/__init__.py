"""From a message to a called function and its result.

| question | module |
|---|---|
| where do messages arrive? | `work`: claim, call, report, send what follows |
| which runs does this worker get, and how do several runs share one message? | `claim` |
| what is the function called with, and what counts as which ending? | `attempt` |
| who calls `on_start` and `on_complete`? | `hooks` |
| where do coroutines run? | `event_loop` |
| which log lines are kept with an attempt? | `log_tail` |
| what happens when a worker starts and stops? | `lifecycle` |
| which database connection do messages use? | `connection`, its options and its reset in `database_session` |

Invariants: a run is claimed by one guarded UPDATE with a new token, and only this token can report its
result. No exception of a user's function leaves `attempt`.

On failure: a process that dies is reported by its supervisor (`supervision`), a worker that dies by the
reaper (`recovery`), when the lease has expired. While the database is away, results are kept in memory and
retried.
"""
