"""Definitions: what runs, when, and how; as code, as rows, as configuration."""
