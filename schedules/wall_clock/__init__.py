"""Turn a pattern on the wall clock of a zone into UTC instants.

A cron pattern names wall times; a zone decides which instants show them. When the offset changes, the
wall clock skips times (a gap) or shows them twice (a fold).

- `months`: which days of a month match, as bit masks.
- `timetable`: the next or previous wall time that matches a pattern.
- `zones`: offsets, gaps and folds, and the rules (`DstRule`) that the kinds of schedule apply to them.
- `recurrence`: pattern + zone + rule = strictly increasing instants.
- `moments`: ISO 8601 dates and datetimes.

Wall times are passed as datetimes tagged UTC, so that comparing them needs no zone.
"""
