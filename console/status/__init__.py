"""Pages and probes about the scheduler as a whole.

- `overview` (with the chart of `activity`), `timeline`, `workers`, `beat_pages`: what operators look at.
- `header_counts`: the counts on top of every page, in one statement.
- `views`: the pages with paths of their own.
- `probes`: /healthz, /readyz and /metrics, answered by a middleware; `health` has the checks behind /readyz.
- `queue_coverage`: queues in which runs wait and that no worker consumes.
- `metrics`: gauges; `metric_totals`: counters that never fall, not even after pruning; `metric_durations`:
  histograms.

All figures come from rows at the time of the request, by the clock of the database. No process keeps numbers.
"""
