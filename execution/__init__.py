"""How a row becomes a result: dispatch, claim, attempt, outcome, report, settle."""
