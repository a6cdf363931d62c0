PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
SECONDS ?= 600
SEED ?= 1
CLUSTERS ?= 5
.PHONY: help demo test soak check docs screenshots format bench faults requirements clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

demo: $(VENV)/.embedded ## install, migrate, and start everything on this machine (Ctrl-C stops it)
	$(BIN)/python manage.py up --demo

test: $(VENV)/.dev ## every test on PostgreSQL and a Redis-compatible server, then on SQLite what depends on the database
	$(PYTEST) -n auto --ignore=tests/schedules -m "not cluster and not browser and not soak"
	$(PYTEST) -n $(CLUSTERS) --maxschedchunk 1 tests/cluster tests/browser -m "not alone"
	$(PYTEST) tests/cluster -m alone
	$(PYTEST) -n auto tests/schedules --cov=schedules --cov-branch --cov-report=term:skip-covered --cov-fail-under=100
	PUNCTUAL_TEST_DATABASE=sqlite $(PYTEST) -n auto -m "sqlite and not soak" --ignore=tests/schedules --ignore=tests/cluster --ignore=tests/browser

soak: $(VENV)/.dev ## the long tests: every portable test on SQLite, thorough random tests, each cluster test by itself, faults
	$(PYTEST) -n auto -m soak --ignore=tests/cluster --ignore=tests/browser
	PUNCTUAL_TEST_DATABASE=sqlite $(PYTEST) -n auto -m "not postgres and not cluster and not browser" --ignore=tests/schedules
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -n auto --timeout 3600 tests/schedules tests/polling
	$(PYTEST) tests/cluster tests/browser
	$(MAKE) faults

check: $(VENV)/.dev ## format, lint, types, import contracts, migrations, deployment settings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy punctual scheduler_project tests examples docs docker manage.py
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	DATABASE_URL=postgres://check@localhost/check BROKER_URL=redis://localhost:6379/0 ALLOWED_HOSTS=example.org \
	SECRET_KEY=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(64))') \
	$(BIN)/python manage.py check --deploy --fail-level WARNING

docs: $(VENV)/.dev ## build the documentation into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

screenshots: $(VENV)/.dev ## take the pictures of docs/images from the running demo (needs chromium)
	$(BIN)/python -m tests.browser.screenshots

format: $(VENV)/.dev ## rewrite the code in house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev ## run the benchmarks (prints ratios, asserts nothing)
	@for file in $(filter-out benchmarks/faults.py benchmarks/checker.py,$(wildcard benchmarks/[a-z]*.py)); do \
	echo "== $$file"; $(BIN)/python $$file || exit 1; done

faults: $(VENV)/.dev ## kill, freeze and cut off everything at random for ten minutes, then compare the ledger (SECONDS, SEED)
	$(BIN)/python benchmarks/faults.py --seconds $(SECONDS) --seed $(SEED)

requirements: $(VENV)/.dev ## compile requirements/*.txt from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --upgrade --no-header pyproject.toml -o requirements/base.txt
	$(BIN)/uv pip compile --quiet --universal --no-header --extra production -c requirements/base.txt pyproject.toml -o requirements/production.txt
	$(BIN)/uv pip compile --quiet --universal --no-header --extra embedded -c requirements/base.txt pyproject.toml -o requirements/embedded.txt
	$(BIN)/uv pip compile --quiet --universal --no-header --extra dev -c requirements/base.txt pyproject.toml -o requirements/dev.txt

clean: ## remove the virtualenv, the demo's data and every cache
	rm -rf $(VENV) var build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Punctual needs Python 3.11 or newer; found %d.%d. Try: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.embedded: requirements/embedded.txt | $(BIN)/python
	$(PIP) install -r $<
	@touch $@

$(VENV)/.dev: requirements/dev.txt | $(BIN)/python
	$(PIP) install -r $<
	@touch $@ $(VENV)/.embedded
