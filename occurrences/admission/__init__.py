"""Admission: which due occurrences start now, which wait, and which are skipped or missed?

`firing.py` is a beat's step for rows that have become due. `waiting.py` admits queued rows when a slot or a
job becomes free; workers call it when they settle an occurrence, the sweeper for slots that a dead worker
left. Both lock, decide purely, write, and return the runs to send.

- Deciding is pure: `admit.py` (window, limits, pool slots, order), `overlap.py` (the overlap policy).
- Reading: `selection.py` locks due rows and their cursors and reads all facts about them, `candidates.py` has
  the facts about an occurrence that wants to start, `capacity.py` counts free slots and starts left.
- Writing: `opening.py` inserts the task runs of admitted occurrences and marks these as dispatched.

The cursor of a job is the mutex of its admission, the row of a pool that of its slots. Slots are counted from
active rows and never stored, so a dead worker's slot becomes free with its occurrence. A crash before the
commit changes nothing; a crash after it leaves runs without a message, which the sweeper sends.
"""
