"""Installed in the processes of a fault run: the switch of `benchmarks/faults.py`."""
