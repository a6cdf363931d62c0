"""List every action an operator can take, by scope and name."""

from typing import Any

from punctual.operations import (
    dead_letter_actions,
    job_actions,
    occurrence_actions,
    prune_actions,
    range_actions,
    sweep_actions,
)
from punctual.operations.action import Action, Scope

ACTIONS: tuple[Action[Any], ...] = (
    job_actions.RUN,
    job_actions.PAUSE,
    job_actions.RESUME,
    job_actions.STOP,
    job_actions.START,
    job_actions.REMOVE,
    range_actions.BACKFILL,
    range_actions.REPLAY,
    sweep_actions.RECOVER_JOB,
    prune_actions.PRUNE_JOB,
    occurrence_actions.REPLAY,
    occurrence_actions.REPLAY_FAILED,
    occurrence_actions.CANCEL,
    occurrence_actions.SKIP,
    dead_letter_actions.REPLAY,
    dead_letter_actions.PURGE,
    *sweep_actions.SWEEPS,
    prune_actions.PRUNE_ALL,
)
BY_NAME = {(action.scope, action.name): action for action in ACTIONS}


def find_action(scope: Scope, name: str) -> Action[Any] | None:
    return BY_NAME.get((scope, name))


def actions_of(scope: Scope) -> list[Action[Any]]:
    """In the order in which pages offer them."""
    return [action for action in ACTIONS if action.scope == scope]
