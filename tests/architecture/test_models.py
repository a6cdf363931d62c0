"""What the models say about the direction of the flow and the names in the database."""

import pytest
from django.apps import apps
from django.db import models

from tests.architecture.source import FLOW


def own_models() -> list[type[models.Model]]:
    return list(apps.get_app_config("punctual").get_models())


def room(model: type[models.Model]) -> str:
    """`jobs` for a class of `punctual.jobs.models`; another project's module for what is not ours."""
    package, _, rest = model.__module__.partition(".")
    return rest.partition(".")[0] if package == "punctual" else package


def points_right(model: type[models.Model], target: type[models.Model]) -> bool:
    owner, other = room(model), room(target)
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
    job, occurrence = apps.get_model("punctual.Job"), apps.get_model("punctual.Occurrence")
    assert points_right(job, occurrence)
    assert not points_right(occurrence, job)


@pytest.mark.parametrize("model", own_models(), ids=lambda model: model._meta.label)
def test_every_index_and_constraint_is_named_for_its_purpose(model: type[models.Model]) -> None:
    names = [index.name for index in model._meta.indexes]
    names += [constraint.name for constraint in model._meta.constraints]
    # Django's own names end in eight hexadecimal digits and a suffix: `punctual_job_name_1f2e3d_idx`.
    automatic = [name for name in names if name.endswith(("_idx", "_uniq", "_key")) or not name]
    assert automatic == []
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("model", own_models(), ids=lambda model: model._meta.label)
def test_a_nameless_index_comes_only_with_a_relation_or_a_unique_column(
    model: type[models.Model],
) -> None:
    """`db_index=True` makes an index without a name that says its purpose."""
    assert [
        field.name
        for field in model._meta.local_fields
        if getattr(field, "db_index", False) and not (field.unique or field.is_relation)
    ] == []
