"""Declarations of jobs."""
