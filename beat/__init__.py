"""The clock: a beat fires what is due, plans what is next, sweeps, and sleeps until the next row is due.

Any number of beats may run. There is no leader and no lock between them: primary keys decide who creates an
occurrence, and row locks that other beats skip decide who fires it. A beat that dies in the middle of a tick
rolls back its transaction; another beat, or the next tick, does the work. When the database or the broker
does not answer, the beat logs one line and tries again a second later.

- `tick`: one pass over the due work, with an explicit `now`. No Celery beat, no sleeping.
- `celery_scheduler`: the class `celery beat` runs: calls the tick, waits, handles outages and stop signals.
- `postgres`: what a beat does with PostgreSQL only: session settings, and LISTEN to wake up early.
- `periodic_tasks/`: django-celery-beat's PeriodicTasks: send each once with several beats, import as jobs.
"""
