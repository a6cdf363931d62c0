"""The ledger: what was due and what became of it."""
