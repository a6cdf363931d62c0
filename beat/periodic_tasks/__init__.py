"""Adapter for django-celery-beat: its PeriodicTasks run under our beats, or are imported as jobs (OCC-10).

- `celery_entries`: a Celery scheduler over PeriodicTask rows that reserves each due run in its row before
  it is sent, so that several beats send it once.
- `importer`: create a job for each PeriodicTask and disable the row in the same transaction.
- `translation`: the schedule text and the message of a PeriodicTask, or the reason why it cannot be imported.

No other package of `punctual` imports django-celery-beat.
"""
