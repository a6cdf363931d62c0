from contextlib import suppress

import pytest

from jobs import DefinitionError, Job
from jobs.registry import Registry, TaskFunction, registry


def noop(ctx: object) -> None: ...


def other(ctx: object) -> None: ...


@pytest.mark.req("JOB-4")
def test_a_name_nobody_registered_is_unresolved_even_if_it_could_be_imported() -> None:
    registry = Registry()
    registry.add_function(TaskFunction("module.noop", noop))
    assert registry.function("os.getcwd") is None


@pytest.mark.req("JOB-4")
def test_a_registered_name_gives_the_callable_back() -> None:
    registry = Registry()
    registry.add_function(TaskFunction("module.noop", noop))
    found = registry.function("module.noop")
    assert found is not None
    assert found.call is noop


def test_the_same_function_may_serve_several_jobs() -> None:
    registry = Registry()
    registry.add_function(TaskFunction("module.noop", noop))
    registry.add_function(TaskFunction("module.noop", noop))
    assert list(registry.functions) == ["module.noop"]


def test_a_second_function_under_a_taken_name_is_refused_and_the_first_stays() -> None:
    registry = Registry()
    registry.add_function(TaskFunction("module.noop", noop))
    with pytest.raises(DefinitionError, match=r"function='module.noop': another task is registered"):
        registry.add_function(TaskFunction("module.noop", other))
    assert registry.functions["module.noop"].call is noop


@pytest.mark.req("EXE-6")
def test_a_function_cannot_be_transactional_in_one_job_and_not_in_another() -> None:
    registry = Registry()
    registry.add_function(TaskFunction("module.noop", noop, transactional=True))
    with pytest.raises(DefinitionError, match=r"function='module.noop'.*transactional"):
        registry.add_function(TaskFunction("module.noop", noop))
    assert registry.functions["module.noop"].transactional


def test_a_second_job_under_a_taken_name_is_refused_and_the_first_stays() -> None:
    with registry.isolated():
        first = Job("nightly", "0 2 * * *")
        with pytest.raises(DefinitionError, match="name='nightly': another job is declared under this name"):
            Job("nightly", "0 3 * * *")
        assert registry.jobs == {"nightly": first}


def test_hooks_are_known_by_job_name() -> None:
    with registry.isolated():
        job = Job("nightly", "0 2 * * *")
        assert not registry.has_hooks("nightly")
        job.on_complete(noop)
        assert registry.has_hooks("nightly")
        assert not registry.has_hooks("unknown")


def test_isolation_hides_what_was_declared_and_gives_it_back_even_after_an_error() -> None:
    with registry.isolated():
        outer = Job("outer", "0 2 * * *")
        with suppress(RuntimeError), registry.isolated():
            assert registry.jobs == {}
            Job("inner", "0 2 * * *")
            raise RuntimeError
        assert registry.jobs == {"outer": outer}
