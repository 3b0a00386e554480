# make demo   the eight-seed comparison on Friedman #1
# make test   all tests
# make lint   ruff, mypy and numpydoc
# make docs   the documentation, in docs/_build/html
# make check  all that continuous integration runs
#
# Each makes .venv first when it is missing. Another Python: make test PYTHON=python3.12

PYTHON ?= python3
PYTEST_ARGS ?=

BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	-c constraints.txt
# numpydoc reads files, so private ones are left out here, private names in its settings.
PUBLIC_MODULES = $(shell find sk_quadratic -name '*.py' -not -path '*/_*')

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test lint ruff types docstrings format docs readme check clean

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

demo: .venv/.demo
	$(BIN)/python -m sk_quadratic compare --data friedman1 --jobs 2

test: .venv/.test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: ruff types docstrings

ruff: .venv/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: .venv/.dev
	$(BIN)/mypy sk_quadratic

docstrings: .venv/.dev
	$(BIN)/numpydoc lint $(PUBLIC_MODULES)

format: .venv/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: .venv/.dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

readme: .venv/.test
	$(BIN)/python -m pytest --doctest-glob=README.md --doctest-glob='*.rst' \
		README.md docs/user_guide

check:
	.ci/run

clean:
	rm -rf .venv build dist docs/_build docs/auto_examples docs/generated
	rm -f docs/sg_execution_times.rst

# pip is the last thing that venv installs: where it is, the environment is complete.
.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "sk_quadratic needs Python 3.11 or newer; '$(PYTHON)' is" \
			"$$($(PYTHON) --version 2>&1). Name another one with" \
			"'make ... PYTHON=python3.11'." >&2; exit 1; }
	@test -x $(BIN)/pip || { echo "Making .venv"; $(PYTHON) -m venv .venv; }
	@touch $@

.venv/.demo: .venv/.python pyproject.toml constraints.txt
	@echo "Installing what the demo needs into .venv (torch is large)"
	@$(PIP_INSTALL) -e '.[compare]'
	@touch $@

.venv/.test: .venv/.python pyproject.toml constraints.txt
	@echo "Installing what the tests need into .venv (torch is large)"
	@$(PIP_INSTALL) -e '.[test,compare]'
	@touch $@

.venv/.dev: .venv/.test
	@echo "Installing the tools for documentation and checks into .venv"
	@$(PIP_INSTALL) -e '.[docs,dev]'
	@touch $@
