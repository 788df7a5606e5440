# The front door. Everything real is in CMakeLists.txt; see `make help`.
PRESET ?= release
JOBS   ?= $(shell nproc)
PREFIX ?= /usr/local

.DEFAULT_GOAL := help
.PHONY: help deps build demo check check-long torture bench install format format-check lint clean

help:
	@echo 'make demo        build, replay a real recording, print the table'
	@echo 'make check       build and pass the tests (debug, asan, tsan)'
	@echo 'make check-long  the model tests and proofs at full length'
	@echo 'make torture     the torture programs for an hour'
	@echo 'make bench       every benchmark, with the running kernel beside it'
	@echo 'make install     install under PREFIX (default /usr/local), DESTDIR honoured'
	@echo 'make format      clang-format every source;  make lint: clang-tidy, shellcheck, codespell'
	@echo 'make build       build only (PRESET=release|debug|asan|tsan)'
	@echo 'make clean       remove build/'

deps:
	@scripts/deps

build: deps
	@cmake --preset $(PRESET) >/dev/null
	@cmake --build --preset $(PRESET) -j $(JOBS)

demo: deps
	@cmake --preset $(PRESET) >/dev/null
	@cmake --build --preset $(PRESET) -j $(JOBS) --target samara
	@build/$(PRESET)/tools/samara/samara replay traces/wordcount-4.strace.xz

check: deps
	@scripts/check

check-long: deps
	@scripts/check --long

torture: deps
	@scripts/check --torture

bench: build
	@build/$(PRESET)/tools/samara/samara bench all --json build/bench.json

install: build
	@cmake --install build/$(PRESET) --prefix $(PREFIX)

format: deps
	@scripts/lint --format

format-check: deps
	@scripts/lint --check-format

lint: deps
	@scripts/lint

clean:
	@rm -rf build
