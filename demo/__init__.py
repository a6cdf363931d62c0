"""Example jobs for `manage.py up --demo`."""
