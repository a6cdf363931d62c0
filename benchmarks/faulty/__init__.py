"""Installed in the processes of a fault run: the switches of `benchmarks/faults.py`."""
