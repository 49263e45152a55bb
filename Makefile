# `make` alone lists the targets. Every target makes what it needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# With it each process of a stack compiles the whole program again, and each worker of the tests all tests.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(VENV)/.installed ## make the environment in .venv and nothing else

$(VENV)/.installed: requirements.txt requirements-dev.txt
	@PYTHON=$(PYTHON) bash scripts/setup.sh $(VENV)

system: ## add the system packages that running needs, where it may
	@bash scripts/system.sh run

system-test: ## add the system packages that the tests need, where it may
	@bash scripts/system.sh test

run: setup system ## five sites measuring each other on this machine; prints the address of the page. PORT=8001 DATA=DIR LAB=SCENARIO
	@exec $(BIN)/python manage.py up --lab $(LAB) $(if $(PORT),--port $(PORT)) $(if $(DATA),--data "$(DATA)")

# What mostly waits, stacks and timed packets, runs beside what computes, which yields to it; tests.repeat prints each line
# behind the name of its run. A failure stops no other tests. Targets of targets run beside each other too.
BESIDE := $(MAKE) --no-print-directory -k -j4
each = status=0; for target in $(1); do $(MAKE) --no-print-directory $$target || status=1; done; exit $$status

test: setup system-test ## the whole test suite but the tests of TimescaleDB, database and namespaces included
	+@$(BESIDE) test-waiting test-most

test-waiting:  # packets are timed without a stack beside them
	+@$(call each,test-e2e test-net)

test-stacks: test-e2e test-whole-job

test-e2e: setup system-test  # the whole job runs on TimescaleDB
	$(BIN)/python -m tests.repeat e2e tests/e2e --ignore=tests/e2e/pages --ignore=tests/e2e/test_whole_job.py -n 3 --dist loadfile --no-loadscope-reorder --durations=15

test-net: setup system-test  # the longest file is the first
	$(BIN)/python -m tests.repeat net tests/net -n 4 --dist loadfile --no-loadscope-reorder --durations=15

test-most: setup system-test  # all but test-e2e and test-net
	nice -n 10 $(BIN)/python -m tests.repeat most tests --ignore=tests/net --ignore=tests/e2e/lab --ignore-glob='tests/e2e/test_*.py' -n 2 --dist loadfile --no-loadscope-reorder --durations=15

test-timescale: setup system-test ## the database tests on TimescaleDB
	nice -n 10 $(BIN)/python -m tests.timescale

test-whole-job: setup system-test ## the whole job, from the packets to the page, on TimescaleDB
	$(BIN)/python -m tests.timescale whole-job tests/e2e/test_whole_job.py --durations=15

test-faults: setup system-test ## outages of ten minutes, twenty rounds of kill -9, clocks set, disks full; half an hour
	SOUNDINGS_TEST_FAULTS=whole $(BIN)/python -m pytest -m "long or not long" tests/e2e/lab/test_faults_*.py tests/e2e/test_faults_many.py tests/e2e/test_full_disk.py \
	    tests/e2e/test_spool_full_disk.py tests/e2e/lab/test_agent_life.py

test-grafana: setup system-test ## the dashboards' queries through Grafana's own plugin; needs Go and gcc; ten minutes the first time, table into docs/grafana.md
	nice -n 10 $(BIN)/python -m tests.grafana --write

fuzz: setup system-test ## what strangers send, broken at random: reports, captures, tables, batches, meshes, commands; CASES=5000 SEED=random
	@seed=$(or $(SEED),$$RANDOM$$RANDOM); echo "fuzz: $(or $(CASES),5000) of each, SOUNDINGS_FUZZ_SEED=$$seed"; \
	    SOUNDINGS_FUZZ_SEED=$$seed SOUNDINGS_FUZZ_CASES=$(or $(CASES),5000) $(BIN)/python -m pytest tests/fuzz -n 2 --timeout=1800 --durations=10

test-stamp: setup ## STAMP against a foreign implementation, stamp-suite, which cargo builds the first time: some minutes
	CARGO_TARGET_DIR=.cache/stamp-suite/target cargo install --quiet --locked --root .cache/stamp-suite stamp-suite --version 1.0.0
	$(BIN)/python -m pytest tests/net/test_stamp_suite.py

test-ha: setup system-test ## a centre with two of everything, killed process by process while agents deliver; KILLS=3, minutes; KILLS=30 AGENTS=50
	SOUNDINGS_TEST_KILLS=$(or $(KILLS),3) SOUNDINGS_TEST_AGENTS=$(or $(AGENTS),10) $(BIN)/python -m pytest -m long tests/ha

test-compose: setup ## docker-compose.yml on a Docker engine of its own, as root on Debian 12, and upgraded from an earlier commit; 20 minutes, 8 GB of disk; needs git
	$(BIN)/python -m tests.compose --write

lint: setup ## style, types, import contracts and unused code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(if $(CI),--cache-dir=/dev/null)
	$(BIN)/lint-imports
	! $(BIN)/vulture | grep -vE 'unused (variable|attribute|property)'  # templates read properties

check: ## what CI runs: style, types, all tests, those of the database on TimescaleDB too
	@$(MAKE) --no-print-directory system-test
	@$(MAKE) --no-print-directory setup
	+@$(BESIDE) timescale check-waiting check-computing

check-waiting:
	+@$(call each,collect test-stacks test-net)

check-computing:
	+@$(call each,lint test-databases)

test-databases: test-most test-timescale  # a worker often waits for its database, so three of them share two cores

collect: setup system-test  # once, so that not each worker of the tests compiles them all
	$(BIN)/python -m pytest tests --collect-only -q >/dev/null

timescale: system-test  # a folder with the database
	@bash scripts/timescale.sh .cache/timescale

bench: setup system-test ## benchmarks, side by side with the usual tools, as ratios
	$(BIN)/python -m tests.bench

bench-archive: setup system-test ## the archive's queries on 10,000 paths with 30 days of hours; minutes, 4 GB of disk
	$(BIN)/python -m tests.bench archive_queries

reproduce: setup system-test ## TCP's models and published paths, in the lab; 40 minutes, tables into docs/method/reproduce.md
	$(BIN)/python -m tests.reproduce --write
	$(BIN)/python -m pytest tests/net -m long

bench-alerts: setup system-test ## planted faults, labelled changes, an evaluation of 10,000 paths; half an hour, 2 GB
	$(BIN)/python -m tests.scored planted
	$(BIN)/python -m tests.bench alerts alert_evaluation

bench-trace: setup system-test ## traces compared with mtr and scamper; five minutes
	$(BIN)/python -m tests.bench trace

bench-faults: setup system-test ## 200 agents back at once with 100,000 results each; six minutes on two idle cores, 10 GB of disk
	$(BIN)/python -m tests.bench faults

truth: setup system-test ## twelve faults planted in a lab: is what pages, API and titles say of them true; two hours
	$(BIN)/python -m tests.lab_truth

scored: setup system-test ## simulated paths with planted faults: is what is stated right; tables into docs. NAME=routes or another, all that need no lab without it
	@status=0; for name in $(or $(NAME),causes causes-partial congestion link_use losses policers routes); do \
	    $(BIN)/python -m tests.scored $$name --write || status=1; done; exit $$status

screenshots: setup system-test ## the pictures of README and docs, of a lab that runs for half an hour and of large meshes
	$(BIN)/python -m tests.screenshots
	$(BIN)/python -m tests.screenshots.large

reference: setup ## docs/reference from the code: keys of mesh.toml and limits.toml, variables, retention, requests of the API
	DJANGO_SETTINGS_MODULE=monitor.settings $(BIN)/python -m scripts.reference

audit: setup ## known vulnerabilities of the pinned packages, from an advisory service; AUDIT_SERVICE=pypi or osv
	@bash scripts/audit.sh $(VENV)

dist: setup ## wheels and source distributions of the whole and of the agent alone, in dist/
	$(BIN)/python -m scripts.dist

deb: dist ## the agent as a Debian package for this release, in dist/; needs python3-venv
	@bash scripts/deb.sh dist/soundings_agent-*.whl dist

test-deb: dist ## the Debian package in folders of Debian 12 and 13: built, installed, upgraded, removed, purged; as root, five minutes
	$(BIN)/python -m pytest -m long tests/e2e/test_debian_package.py

test-install: setup system-test ## the wheels installed from a package index and run: the centre with its lab, an agent that joins; five minutes
	$(BIN)/python -m pytest -m long tests/e2e/test_installed_whole.py

test-upgrade: setup system-test ## a centre of an earlier commit upgraded while its agent delivers, in a clone and from wheels; ten minutes; needs git
	$(BIN)/python -m pytest -m long tests/e2e/test_upgrade.py tests/e2e/test_pip_upgrade.py

pins: setup ## whether the pinned packages have wheels for Python 3.11 to 3.13 on amd64 and arm64; from a package index, five minutes
	$(BIN)/python -m scripts.pins

lock: setup ## pin the requirements anew, with hashes and without addresses
	bash scripts/lock.sh $(BIN)

.PHONY: help setup system system-test run test fuzz test-most test-waiting test-e2e test-net test-stacks test-databases test-timescale test-whole-job timescale collect test-ha test-compose test-stamp test-faults test-grafana lint check check-waiting check-computing bench bench-archive bench-alerts bench-trace bench-faults reproduce truth scored screenshots reference audit dist deb test-deb test-install test-upgrade pins lock
