"""Planning: which instants get a row, and when does each of them start?

A job with a schedule always has its next occurrence as a pending row. The cursor of a job says how far its
rows reach (`planned_until`), up to where its past is settled (`settled_until`) and when to plan again
(`plan_at`). A database trigger resets the cursor when a job is edited by any means.

- Deciding is pure: `instants.py` (which instants get a row; spread, stagger, jitter and window of each),
  `catchup_policy.py` (which late instants still run), `stretches.py` (ranges of instants that do not run),
  `replan_decision.py` (what an edit forgets, keeps and creates), `fixed_delay.py` (a delay after the end).
- Writing: `materialize.py` plans due cursors, `new_rows.py` builds the rows, `replan.py` adjusts pending rows
  in the transaction of an edit, `pauses.py` pauses and resumes jobs, `paused_instants.py` runs what a pause
  skipped, `downtime.py` records what a job far behind will not run, `cursors.py` locks due cursors and reads
  their jobs, unless firing has just read them.

Two beats may plan the same job at once. Rows are inserted in the order of their ids with conflicts ignored,
and the cursor moves in the same transaction and never back, so a crash or a repetition changes nothing. A job
that cannot be planned keeps its error in `Cursor.problem` and does not stop the others.
"""
