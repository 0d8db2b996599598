# make demo     the main job on real data       make test      the fast suite: the same each time
# make lint     style, types, layers, words     make proof     crash states, faults, kills, random walks
# make package  the sdist, installed and tried  make affected  the proofs of what changed since BASE=origin/main
# make site     the documentation, as a site    make deep      the long proofs, resumable
# make install  what all of these need          make coverage  the fast suite, and which lines it runs
# make bench    ratios of two sides in one run  make gate      what CI runs, with the time of each step
# make clean    remove generated files          make tools     install the programs that some tests need
PYTHON ?= python3
# of each Python its own: make test PYTHON=python3.13
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KERNELS := $(VENV)/.kernels
TOOLS := $(VENV)/.tools
BYTECODE := $(VENV)/.bytecode
INSTALL := $(BIN)/python -m tools.uv pip install --quiet --constraint constraints.txt
# Processes that run tests. More than 2 cores need: half of the time a test waits for a disk or another process.
WORKERS ?= 4
# tests/conftest.py decides which tests come first. The random walks of Hypothesis are short and the same each time in
# `make test`; `make proof` takes other ones, and more of them.
FAST := not proof and not deep
FULL := proof or hypothesis
BASE ?= origin/main
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
# Tests start hundreds of processes, and without bytecode each of them compiles its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test lint bench proof affected coverage package site gate deep tools clean
.DEFAULT_GOAL := help

help:
	@head -7 Makefile

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "seglog needs Python 3.11 or newer: set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "this Python has no venv module: install it (Debian: apt-get install python3-venv), or set PYTHON to another Python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --progress-bar off --constraint constraints.txt uv
	$(INSTALL) --editable '.[dev]'
	$(BIN)/python -m seglog.spark.java || $(INSTALL) --editable '.[java]'
	touch $@

# for this processor, as in a wheel; without a linker numba compiles what is used, as after an edit
$(KERNELS): $(wildcard src/seglog/kernels/*.py) $(STAMP)
	$(BIN)/python -m seglog.kernels.aot
	touch $@

# once; `make tools` tries again
$(TOOLS): tests/tools.py $(STAMP)
	$(BIN)/python -m tests.tools
	touch $@

# once, or each process that runs tests compiles all tests and what they import; a test that is wrong fails `make test`
$(BYTECODE): $(STAMP) | $(TOOLS) $(KERNELS)
	-$(BIN)/python -m pytest --collect-only --quiet --quiet >/dev/null
	touch $@

install: $(BYTECODE)

demo: $(KERNELS)
	$(BIN)/seglog demo --output demo-output

test: $(BYTECODE)
	$(PYTEST) -m '$(FAST)' --durations 20

coverage: $(BYTECODE)
	$(PYTEST) -m '$(FAST)' --cov

proof: $(BYTECODE)
	SEGLOG_WALKS=full $(PYTEST) -m '$(FULL)'

affected: $(BYTECODE)
	@tests=$$($(BIN)/python -m tools.affected $(BASE)) || exit 1; \
	if [ -z "$$tests" ]; then echo "no test uses what has changed since $(BASE)"; \
	else SEGLOG_WALKS=full $(PYTEST) -m '$(FULL)' $$tests || [ $$? -eq 5 ]; fi # 5: none of these tests is a proof

gate:
	$(PYTHON) -m tools.gate

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.words

package: $(STAMP)
	$(BIN)/python -m tools.package $(PACKAGE)

site: $(STAMP)
	$(BIN)/python -m tools.docs_site

tools: $(STAMP)
	$(BIN)/python -m tests.tools

bench: $(KERNELS)
	$(BIN)/python -m benchmarks $(BENCH)

deep: $(KERNELS)
	$(BIN)/python -m pytest -m deep --timeout 0
	$(BIN)/python -m tests.crash.deep
	$(BIN)/python -m tests.crash.mutants

clean:
	rm -rf .venv .venv-* build/site dist demo-output .coverage .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
