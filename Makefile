# The two commands for everyone: make demo, make test. Both set everything up in .venv first.

PYTHON ?= python3
ENGINE ?= shares
BIN := .venv/bin
SETUP := .venv/.set-up

# Python keeps what it has compiled, also where the environment says otherwise: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test test-versions release-check lint check notebooks docs docs-serve lock clean bench-%

setup: $(SETUP)

$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unpooled needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . --group dev
	touch $(SETUP)

demo: setup
	$(BIN)/unpooled demo --engine $(ENGINE)

# One process more than there are cores: many tests wait for processes and time limits.
test: lint
	$(BIN)/python -m pytest --numprocesses $$($(BIN)/python -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))') --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m build --no-isolation --wheel --outdir .venv/dist .

# The same under every Python of 3.11, 3.12 and 3.13 that is installed, without what starts processes or runs whole jobs.
# Others instead: make test-versions TESTS="tests/jobs -n 4"
test-versions:
	@$(PYTHON) tests/versions.py $(TESTS)

# What must hold before a release: packages, metadata, the demo from each package alone, licences of dependencies. Not part of CI.
release-check: setup
	$(BIN)/python packaging/release_check.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2

check: lint
	$(BIN)/python -m pytest -q tests/test_import_rules.py tests/test_public_names.py

# Execute the notebooks, and keep what they show.
notebooks: setup
	$(BIN)/python notebooks/execute.py

# The documentation as a site, in site/VERSION; versions that are already there stay.
docs: setup
	$(BIN)/python website/make_site.py

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory site 8000

# Compiled first, as installing a package does: every process of a party would otherwise compile what it imports.
bench-%: setup
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python benchmarks/$(subst -,_,$*).py

# Take the newest versions that work together, then run the tests before committing the result.
lock:
	$(PYTHON) -m venv .venv/lock
	.venv/lock/bin/python -m pip install --quiet --upgrade pip
	.venv/lock/bin/python -m pip install --quiet --editable '.[postgres,datasets,experiments,plots,generate,ray]' --group dev
	.venv/lock/bin/python -m pip freeze --all --exclude-editable --exclude setuptools --exclude wheel > constraints.txt
	rm -rf .venv/lock

clean:
	rm -rf .venv runs build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
