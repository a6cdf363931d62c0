"""Periodic repair: each module finds one kind of trouble and resolves it in batches.

`sweep.run_once(now)` calls all of them; every beat does so every two seconds (`sweep.INTERVAL`).

- `reaper`: the lease of a running attempt expired, so its worker is gone; the attempt is lost and retried.
- `timeouts`: an occurrence exceeded its `execution_timeout`, or a run its `dispatch_timeout`; it ends as
  `failed_stale`.
- `replacement`: a newer occurrence of a job with `overlap=replace` waits; the active one is canceled.
- `free_slots`: a waiting occurrence fits into its pool, but the process that freed the slot did not admit it.
- `idle_slots`: an occurrence holds a slot, but all its runs wait for retries or for a queue without a worker.
- `resend`: the broker never confirmed a message, or lost it.
- `settlement`: all runs ended but the occurrence was not settled, or its hooks were not called.
- `retries`: the delay of a retry is over. Called in every tick, not only in a sweep.
"""
