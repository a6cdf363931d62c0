from contextlib import suppress

import pytest

from punctual import DefinitionError, Job
from punctual.jobs.declaration.registry import Registry, TaskFunction, registry


def noop(ctx: object) -> None: ...


def other(ctx: object) -> None: ...


@pytest.mark.req("JOB-4")
def test_an_unregistered_name_is_unresolved_even_if_it_could_be_imported() -> None:
    registry = Registry()
    registry.add_function(TaskFunction("module.noop", noop))
    assert registry.function("os.getcwd") is None


@pytest.mark.req("JOB-4")
def test_a_registered_name_returns_its_function() -> None:
    registry = Registry()
    registry.add_function(TaskFunction("module.noop", noop))
    function = registry.function("module.noop")
    assert function is not None
    assert function.call is noop


def test_the_same_function_may_serve_several_jobs() -> None:
    registry = Registry()
    registry.add_function(TaskFunction("module.noop", noop))
    registry.add_function(TaskFunction("module.noop", noop))
    assert list(registry.functions) == ["module.noop"]


def test_a_second_function_of_the_same_name_is_refused_and_the_first_stays() -> None:
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


def test_a_second_job_of_the_same_name_is_refused_and_the_first_stays() -> None:
    with registry.isolated():
        first = Job("nightly", "0 2 * * *")
        with pytest.raises(DefinitionError, match="name='nightly': another job is declared under this name"):
            Job("nightly", "0 3 * * *")
        assert registry.jobs == {"nightly": first}


@pytest.mark.req("JOB-4", "JOB-9")
def test_hooks_are_registered_by_their_names_which_are_part_of_the_definition() -> None:
    name = f"{noop.__module__}.{noop.__qualname__}"
    with registry.isolated():
        job = Job("nightly", "0 2 * * *")
        assert registry.hook(name) is None
        assert job.on_complete(noop) is noop
        assert registry.hook(name) is noop
        assert job.definition.config == {"on_complete": [name]}
        assert registry.hook("os.getcwd") is None, "never imported"


def test_isolation_hides_declarations_and_restores_them_even_after_an_error() -> None:
    with registry.isolated():
        outer = Job("outer", "0 2 * * *")
        with suppress(RuntimeError), registry.isolated():
            assert registry.jobs == {}
            Job("inner", "0 2 * * *")
            raise RuntimeError
        assert registry.jobs == {"outer": outer}


@pytest.mark.req("JOB-3")
def test_the_first_read_imports_the_modules_of_declarations_once() -> None:
    imports: list[str] = []
    registry = Registry(lambda: imports.append("imported"))
    registry.add_function(TaskFunction("module.noop", noop))
    assert (imports, registry.discovery.complete) == ([], False), "declaring imports nothing"
    assert list(registry.functions) == ["module.noop"]
    assert registry.jobs == {}
    assert (imports, registry.discovery.complete) == (["imported"], True)


def test_a_module_that_reads_the_registry_while_it_is_imported_sees_what_is_declared_so_far() -> None:
    reads: list[tuple[list[str], bool]] = []

    def import_module() -> None:
        registry.add_function(TaskFunction("module.noop", noop))
        reads.append((list(registry.functions), registry.discovery.complete))
        registry.add_function(TaskFunction("module.other", other))

    registry = Registry(import_module)
    assert list(registry.functions) == ["module.noop", "module.other"]
    assert reads == [(["module.noop"], False)]


def test_an_error_in_a_module_is_raised_at_every_read_and_the_module_is_not_imported_again() -> None:
    imports: list[str] = []

    def import_module() -> None:
        imports.append("imported")
        raise ZeroDivisionError

    registry = Registry(import_module)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            registry.function("module.noop")
    assert (imports, registry.discovery.complete) == (["imported"], False)


def test_a_process_whose_modules_cannot_be_imported_exits_with_the_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def import_module() -> None:
        raise DefinitionError("name", "x", "too short")

    with pytest.raises(SystemExit, match="the jobs of this project cannot be imported"):
        Registry(import_module).discovery.run_or_exit()
    assert "DefinitionError: name='x': too short" in capsys.readouterr().err
