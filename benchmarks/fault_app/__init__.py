"""App installed in the processes of `benchmarks/faults.py`; can disable the sweeper."""
