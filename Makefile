# Every target is quick when nothing changed: installing and building are remembered by stamp files under build/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1 $(BIN)/pip install -q -c constraints.txt
TYPING := build/typing/baton
NATIVE_SOURCES := $(wildcard csrc/*)
SANITIZED_UNITS := $(patsubst %,csrc/%.c,siphash block_hash prefix_compare block_index block_pool handle_map \
	ready_queue ledger team dense paged_attention)
DRIVER_SOURCES := $(wildcard tests/native/driver/*.c)
FUZZ_ARGS ?=
ACCEPT_ARGS ?=
BENCH_ARGS ?=
# The engine's answers beside a reference: they keep both cores busy by themselves. The others run two at a time.
COMPUTING := tests/parity

.PHONY: install build compiled check test sanitize fuzz up accept bench clean

install: build/stamp/install build/stamp/native

build: build/stamp/native

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Baton needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(VENV)

build/stamp/install: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) setuptools cython wheel
	$(PIP) --no-build-isolation -e '.[engine,dev]'
	mkdir -p $(@D) && touch $@

build/stamp/native: setup.py $(NATIVE_SOURCES) | build/stamp/install
	$(BIN)/python setup.py -q build_ext --inplace
	mkdir -p $(@D) && touch $@

# The simulator's modules in C: the same results in less time.
compiled: install
	$(BIN)/python tools/compile_core.py

# mypy does not follow the editable mapping, so it reads the packages through links.
$(TYPING)/core:
	mkdir -p $(@D) && ln -sfn ../../../services $(@D)/services && ln -sfn ../../../core $@

check: install | $(TYPING)/core
	$(BIN)/ruff check .
	$(BIN)/mypy -p baton.core -p baton.services -p bench
	$(BIN)/lint-imports
	$(BIN)/python tools/check_sizes.py

build/sanitize/driver: $(SANITIZED_UNITS) $(DRIVER_SOURCES) $(wildcard csrc/*.h tests/native/driver/*.h)
	mkdir -p $(@D)
	$(CC) -std=c11 -Wall -Wextra -Werror -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
		-fno-sanitize-recover=all -Icsrc $(SANITIZED_UNITS) $(DRIVER_SOURCES) -o $@

build/stamp/sanitize: build/sanitize/driver
	./build/sanitize/driver
	mkdir -p $(@D) && touch $@

sanitize: build/stamp/sanitize

test: install check sanitize compiled
	$(BIN)/baton fuzz --seeds 0..999 --jobs 2
	$(BIN)/pytest --numprocesses 2 --dist loadfile $(addprefix --ignore=,$(COMPUTING))
	$(BIN)/pytest $(COMPUTING)

fuzz: install
	$(BIN)/baton fuzz $(FUZZ_ARGS)

up: install
	$(BIN)/baton up

accept: install compiled
	$(BIN)/python tests/accept/run.py $(ACCEPT_ARGS)

bench: install compiled
	$(BIN)/python bench/board.py $(BENCH_ARGS)

clean:
	rm -rf build core/kv/*.so
