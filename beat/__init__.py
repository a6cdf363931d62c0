"""The clock: one tick fires what is due, plans what is next, and sweeps."""
