"""What operators do to the ledger, as verbs of management commands; see `jobs.verbs`."""
