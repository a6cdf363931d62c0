"""How does a row become a result? Send, claim, call, report, settle.

| folder | step |
|---|---|
| `broker/` | released runs become messages; one file per broker |
| `worker/` | a message becomes claimed runs, called functions, results |
| `supervision/` | running functions are watched, timed out, killed; processes show that they are alive |
| `ending/` | results become rows; occurrences go on, end, or are canceled |

Invariants: execution is at least once. A message that is lost or doubled changes nothing but time: rows
decide. Every write of a result is fenced by the token of its claim. Users' code runs under a time limit and a
lease.

On failure: what a process leaves undone is finished by its supervisor, what a worker leaves undone by the
sweeper (`punctual.recovery`), through the functions of this room.
"""
