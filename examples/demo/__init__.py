"""The jobs of `manage.py up --demo`: a heartbeat, an ETL, a report, a failing job and a slow one."""
