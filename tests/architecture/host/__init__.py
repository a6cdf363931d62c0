"""A project of an adopter: its settings and its Celery worker, with or without Punctual."""
