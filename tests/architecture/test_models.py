"""What the models say about the direction of the flow and the names in the database."""

import pytest
from django.apps import apps
from django.db import models

from tests.architecture.source import FLOW


def own_models() -> list[type[models.Model]]:
    configs = [config for config in apps.get_app_configs() if config.name in FLOW]
    return [model for config in configs for model in config.get_models()]


def points_right(model: type[models.Model], target: type[models.Model]) -> bool:
    owner, other = model._meta.app_label, target._meta.app_label
    return other in FLOW and FLOW.index(other) > FLOW.index(owner)


def test_foreign_keys_point_left() -> None:
    wrong = [
        f"{model._meta.label}.{field.name}"
        for model in own_models()
        for field in model._meta.get_fields()
        if field.concrete
        and isinstance(field.related_model, type)
        and points_right(model, field.related_model)
    ]
    assert wrong == []


def test_the_check_knows_left_from_right() -> None:
    job, occurrence = apps.get_model("jobs.Job"), apps.get_model("occurrences.Occurrence")
    assert points_right(job, occurrence)
    assert not points_right(occurrence, job)


@pytest.mark.parametrize("model", own_models(), ids=lambda model: model._meta.label)
def test_every_index_and_constraint_is_named_for_its_purpose(model: type[models.Model]) -> None:
    names = [index.name for index in model._meta.indexes]
    names += [constraint.name for constraint in model._meta.constraints]
    # Django's own names end in eight hexadecimal digits and a suffix: `jobs_job_name_1f2e3d_idx`.
    automatic = [name for name in names if name.endswith(("_idx", "_uniq", "_key")) or not name]
    assert automatic == []
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("model", own_models(), ids=lambda model: model._meta.label)
def test_a_nameless_index_comes_only_with_a_relation_or_a_unique_column(
    model: type[models.Model],
) -> None:
    """`db_index=True` makes an index nobody named and nobody argued for."""
    assert [
        field.name
        for field in model._meta.local_fields
        if getattr(field, "db_index", False) and not (field.unique or field.is_relation)
    ] == []
