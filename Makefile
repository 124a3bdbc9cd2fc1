# DriftQ: what you can do here. `make` alone lists the targets.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.driftq-setup
PEERS  := .venv-peers
PYTHONS := 3.12 3.13
SPARKS := 4.0 4.1 4.2 4.3
# The release whose own Kafka connector can be had as a whole.
SPARK_OF_CONNECTOR := 4.0.0
DATA   ?= ./driftq-data
ARGS   ?=
PART   ?=

# Suites that need Python and Java only, those first that take long; the quick part of them; and those that
# need other services.
SUITES   := spark crash acceptance docs contract simulation property conformance unit
QUICK    := unit property simulation
SERVICES := services browser

SUITE_DIRS   := $(wildcard $(SUITES:%=tests/%))
QUICK_DIRS   := $(wildcard $(QUICK:%=tests/%))
SERVICE_DIRS := $(wildcard $(SERVICES:%=tests/%))
# Processes share the tests: in a whole run by module, where one has all that needs Spark and its one session. Those
# tests wait more than they work, so that there is one process more than two cores would suggest.
BY_TEST      := --numprocesses 3 --dist worksteal
BY_MODULE    := --numprocesses 3 --dist loadscope --no-loadscope-reorder
# Beside each process of the services there is a server of theirs, or two.
BY_SERVICE   := --numprocesses 2 --dist loadscope --no-loadscope-reorder
TYPED_DIRS   := $(wildcard src tests scripts bench examples)

UPGRADE ?= --upgrade
COMPILE := $(BIN)/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes \
           --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test test-quick test-services test-matrix check format bench bench-page work sync-client contract reference lock lock-spark docs release clean
MAKEFLAGS += --no-print-directory

help: ## List the targets
	@echo "DriftQ"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv and install everything, pinned by the lock (does nothing when up to date)

$(STAMP): requirements/dev.txt requirements/uv.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "DriftQ needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing)."; \
	  echo "Name another one like this:  make $(or $(MAKECMDGOALS),setup) PYTHON=python3.12"; exit 1; }
	@test ! -e $(BIN)/python || $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(VENV) was made with a Python older than 3.11: run 'make clean', then this again."; exit 1; }
	@test -x $(BIN)/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); echo "Python's venv module is missing or broken (on Debian: apt install python3-venv)."; exit 1; }; }
	@echo "installing from requirements/dev.txt"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@sh scripts/java.sh
	@touch $@
	@echo "ready: $$($(BIN)/python --version), $(BIN)/driftq"

demo: $(STAMP) ## Run the whole story on a free port and print what happened
	@$(BIN)/python -m examples.demo $(ARGS)

serve: $(STAMP) ## Run a server on ./driftq-data (DATA=... for another folder)
	@$(BIN)/driftq serve --data $(DATA) $(ARGS)

test: $(STAMP) ## Run every suite that needs no outside service
	@$(BIN)/python -m pytest $(BY_MODULE) $(SUITE_DIRS) $(ARGS)

test-quick: $(STAMP) ## Run unit and property tests, and some seeds of the simulator
	@DRIFTQ_SEEDS=25 $(BIN)/python -m pytest $(BY_TEST) -k "not test_a_broken_broker_is_caught" $(QUICK_DIRS) $(ARGS)

test-services: $(STAMP) ## Run the suites that need outside services
	@sh scripts/debian.sh valgrind valgrind
	@sh scripts/debian.sh chromium chromium chromium-browser google-chrome
	@if [ -z "$$(find $(SERVICE_DIRS) -name 'test_*.py' 2>/dev/null)" ]; then \
	  echo "no service tests yet in $(SERVICE_DIRS)"; else \
	  $(BIN)/python -m pytest $(BY_SERVICE) $(SERVICE_DIRS) $(ARGS); fi

test-matrix: $(STAMP) ## Run the parts of scripts/matrix.py (PART=spark-4.0 for one of them)
	@$(BIN)/python scripts/matrix.py $(PART) $(if $(ARGS),--options="$(ARGS)")

check: $(STAMP) ## Format, lint, types, imports, names, generated pages, docs
	@echo "format";   $(BIN)/ruff format --check .
	@echo "lint";     $(BIN)/ruff check .
	@echo "types";    $(BIN)/mypy $(TYPED_DIRS)
	@echo "imports";  $(BIN)/lint-imports
	@echo "sync client"; $(BIN)/python scripts/sync_client.py --check
	@echo "words";    $(BIN)/python scripts/words.py
	@echo "contract"; $(BIN)/python scripts/contract.py --check
	@echo "reference"; $(BIN)/python -m scripts.reference --check
	@echo "figures"; $(BIN)/python -m bench.page --check
	@mkdir -p build; echo "docs"; $(BIN)/zensical build --strict >build/docs.log 2>&1 || { cat build/docs.log; exit 1; }
	@echo "all checks passed"

format: $(STAMP) ## Format the code and mend what the linter can mend
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: $(STAMP) $(if $(filter %-peers enqueue,$(or $(ARGS),all-peers)),$(PEERS)/.driftq-setup) ## Run the benchmarks (ARGS="singles …", QUICK=1, JSON=FILE)
	@sh scripts/debian.sh redis-tools redis-benchmark
	@sh scripts/debian.sh wrk wrk
	@BENCH_QUICK=$(QUICK) $(BIN)/python -m bench $(if $(JSON),--json $(JSON)) $(ARGS)

bench-page: $(STAMP) ## Write the figures and charts of the documentation (JSON="FILE …" takes over runs)
	@$(BIN)/python -m bench.page $(JSON)

work: $(STAMP) ## Count the server's work an operation beside the recorded version (ARGS=--record)
	@$(BIN)/python -m bench.work $(ARGS)

$(PEERS)/.driftq-setup: requirements/bench.txt | $(STAMP)
	@echo "installing other queues and stream processors from requirements/bench.txt"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(PEERS)
	@$(BIN)/uv pip install --quiet --python $(PEERS)/bin/python --require-hashes -r requirements/bench.txt
	@touch $@

.venv-spark-%/.driftq-setup: requirements/dev.txt requirements/spark/connect.txt requirements/spark/pyspark-%.txt pyproject.toml | $(STAMP)
	@echo "installing requirements/dev.txt with pyspark $*"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-spark-$*
	@$(BIN)/uv pip install --quiet --python .venv-spark-$*/bin/python --require-hashes -r requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python .venv-spark-$*/bin/python --require-hashes --no-deps \
	  -r requirements/spark/connect.txt -r requirements/spark/pyspark-$*.txt
	@$(BIN)/uv pip install --quiet --python .venv-spark-$*/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

.venv-python-%/.driftq-setup: requirements/dev.txt pyproject.toml | $(STAMP)
	@echo "installing requirements/dev.txt on Python $*"
	@found=$$(ls "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$*.*/bin/python$* 2>/dev/null | tail -1); \
	$(BIN)/uv venv --quiet --clear --python "$${found:-$*}" .venv-python-$* || { \
	  echo "there is no Python $* here, and uv could not download one"; exit 1; }
	@$(BIN)/uv pip install --quiet --python .venv-python-$*/bin/python --require-hashes -r requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python .venv-python-$*/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

sync-client: $(STAMP) ## Write src/driftq/client/sync from the asyncio client
	@$(BIN)/python scripts/sync_client.py

reference: $(STAMP) ## Write docs/reference from the code
	@$(BIN)/python -m scripts.reference

contract: $(STAMP) ## Fill docs/contract.md with the tests that name each clause
	@$(BIN)/python scripts/contract.py

lock: $(STAMP) ## Renew requirements/*.txt (UPGRADE= keeps the versions that still fit)
	@$(COMPILE) requirements/uv.in --output-file requirements/uv.txt
	@$(COMPILE) pyproject.toml --output-file requirements/run.txt
	@$(COMPILE) pyproject.toml --group dev -c requirements/run.txt -c requirements/uv.txt \
	  --output-file requirements/dev.txt
	@$(COMPILE) --group bench --output-file requirements/bench.txt
	@$(MAKE) lock-spark
	@echo "written: requirements/uv.txt requirements/run.txt requirements/dev.txt requirements/bench.txt"

lock-spark: $(STAMP)
	@$(COMPILE) requirements/spark/connect.in -c requirements/dev.txt --output-file requirements/spark/connect.txt
	@for spark in $(SPARKS); do echo "pyspark==$$spark.*" | $(COMPILE) --no-deps --no-annotate - \
	  --output-file requirements/spark/pyspark-$$spark.txt || exit 1; done
	@echo "pyspark==$(SPARK_OF_CONNECTOR)" | $(COMPILE) --no-deps --no-annotate - \
	  --output-file requirements/spark/pyspark-$(SPARK_OF_CONNECTOR).txt
	@echo "written: requirements/spark/*.txt"

docs: $(STAMP) ## Build the documentation into build/site
	@$(BIN)/zensical build --strict

release: $(STAMP) ## Build and check a release; ARGS=--tag also tags it
	@$(BIN)/python scripts/release.py $(ARGS)

clean: ## Remove environments, build results and caches (never a data folder)
	@rm -rf $(VENV) $(PEERS) $(SPARKS:%=.venv-spark-%) .venv-spark-$(SPARK_OF_CONNECTOR) $(PYTHONS:%=.venv-python-%) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .cache
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
	@echo "clean"
