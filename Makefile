# `make` alone lists the targets. Every target makes what it needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(VENV)/.installed ## make the environment in .venv and nothing else

$(VENV)/.installed: requirements.txt requirements-dev.txt
	@PYTHON=$(PYTHON) bash scripts/setup.sh $(VENV)

system: ## add the system packages that running needs, where it may
	@bash scripts/system.sh run

system-test: ## add the system packages that the tests need, where it may
	@bash scripts/system.sh test

run: setup system ## five sites measuring each other on this machine; prints the address of the page
	@exec $(BIN)/python manage.py up --lab

test: setup system-test ## the whole test suite, database and namespaces included
	$(BIN)/python -m pytest tests --ignore=tests/net -n 4 --dist loadfile --no-loadscope-reorder --durations=15
	$(BIN)/python -m pytest tests/net -n 3 --dist loadfile --durations=15  # after the others: these mostly wait, and time packets

test-timescale: setup system-test ## the database tests and the whole job on TimescaleDB
	$(BIN)/python -m tests.timescale

test-faults: setup system-test ## outages of ten minutes, twenty rounds of kill -9, clocks set, disks full; half an hour
	SOUNDINGS_TEST_FAULTS=whole $(BIN)/python -m pytest tests/e2e/lab/test_faults_*.py tests/e2e/test_faults_many.py tests/e2e/test_full_disk.py \
	    tests/e2e/test_spool_full_disk.py tests/e2e/test_agent_life.py

lint: setup ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test ## what CI runs

bench: setup system-test ## benchmarks, side by side with the usual tools, as ratios
	$(BIN)/python -m tests.bench

bench-archive: setup system-test ## the archive's queries on 10,000 paths with 30 days of hours; minutes, 4 GB of disk
	$(BIN)/python -m tests.bench archive_queries

reproduce: setup system-test ## TCP's models and published paths, in the lab; 40 minutes, tables into docs/method/reproduce.md
	$(BIN)/python -m tests.reproduce --write
	$(BIN)/python -m pytest tests/net -m long

bench-alerts: setup system-test ## planted faults, labelled changes, an evaluation of 10,000 paths; half an hour, 2 GB
	$(BIN)/python -m tests.planted
	$(BIN)/python -m tests.bench alerts alert_evaluation

bench-faults: setup system-test ## 200 agents back at once with 100,000 results each; six minutes on two idle cores, 10 GB of disk
	$(BIN)/python -m tests.bench faults

screenshots: setup system-test ## the pictures of README and docs, of a lab that runs for a quarter of an hour
	$(BIN)/python -m tests.screenshots

reference: setup ## docs/reference from the code: keys of mesh.toml and limits.toml, variables
	DJANGO_SETTINGS_MODULE=monitor.settings $(BIN)/python -m scripts.reference

audit: setup ## known vulnerabilities of the pinned packages, from an advisory service; AUDIT_SERVICE=pypi or osv
	@bash scripts/audit.sh $(VENV)

lock: setup ## pin the requirements anew, with hashes and without addresses
	bash scripts/lock.sh $(BIN)

.PHONY: help setup system system-test run test test-timescale test-faults lint check bench bench-archive bench-alerts bench-faults reproduce screenshots reference audit lock
