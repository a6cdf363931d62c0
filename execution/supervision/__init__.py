"""Watch running functions and hooks from outside: renew leases, cancel, time out, kill, and report the dead.

One supervisor runs per worker, in a thread of its parent process. The processes of the pool tell it through
shared memory what they run, so a short task costs no statement and no signal.

| question | module |
|---|---|
| what do a worker's processes and its supervisor share? | `board` |
| how does a function learn that it shall stop, and report progress? | `channel` |
| what does the supervisor do in one pass? | `supervisor` |
| when is an attempt interrupted, killed or given up? Pure. | `verdict` |
| how does an interruption reach a function? | `interrupt` |
| what happens to the other runs of a bundle when one function takes long? | `relief` |
| what happens to messages a worker has prefetched and cannot start? | `prefetch` |
| which beats and workers are alive? | `presence` |

Invariants: each field of the board has one writer at a time. A process is killed before its attempt is
recorded, so two attempts of a run never run at the same time. The supervisor's thread survives every error.

On failure: a supervisor that dies stops renewing leases, and the reaper takes its runs.
"""
