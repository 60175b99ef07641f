# The commands of the project. Longer ones are scripts in scripts/.
# `make help` prints this list.

SHELL := /bin/bash
PREFIX ?= /usr/local
SECONDS ?= 60
# Finds rustup's programs in shells that have not read its settings yet.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.PHONY: run test install build test-deep test-clients lint bench reproduce lab packages packages-test wheels wheels-test book fuzz miri constant-time counts cycles newcomer fmt help

.DEFAULT_GOAL := build

run: ##! list and check the devices, compare hashing with coreutils and speed with OpenSSL
	@scripts/run

test: ##! run the tests of every crate on this CPU; needs no root, takes 16 to 25 minutes on two cores
	@scripts/test

install: ##! install under PREFIX (/usr/local), with DESTDIR: command, *sum links, OpenSSL provider, C library, vectors, manual pages
	@scripts/install "$(DESTDIR)" "$(PREFIX)"

build: ## build the release: target/release/gantry, the OpenSSL provider and vectors for `gantry check` beside it, and the library for C
	@scripts/setup build
	@scripts/build

test-deep: ## run the tests that need root, a nightly Rust, emulators, guests, IKE daemons or other CPU levels; installs missing packages
	@scripts/test-deep

test-clients: ## run long tests: the OpenSSL provider in servers, VPNs and language runtimes, OpenSSL's own tests, keys in hardware, /dev/crypto
	@scripts/test-clients

lint: ## check format, clippy, licences, layers, shell scripts, documentation and its links
	@scripts/lint

bench: ## run all benchmarks against peers in an hour; rewrites docs/src/benchmarks.md from benches/results
	@scripts/setup bench
	@benches/peers/run

reproduce: ## compare published figures with Gantry on models of the same machines (gantry-reproduce); Table 9 needs root and iperf3
	@scripts/setup build
	@cargo build --locked --release -p gantry-crypto-cli --features model -p gantry-reproduce
	@target/release/gantry-reproduce

lab: ## run all tests in guests with real kernels, Linux 6.1 and 6.12
	@scripts/lab

packages: ## build packages for Debian and RPM, a static program, an OCI image, bills of materials: target/packages
	@scripts/packages

packages-test: ## build the packages in two folders and compare; install, use and purge them in a fresh Debian 12 and 13 (as root)
	@scripts/packages-test

wheels: ## build Python wheels for x86_64 and aarch64, glibc and musl, with and without the GIL, from 3.9 on: target/wheels
	@scripts/setup build
	@scripts/wheels

wheels-test: ## test the wheels in a fresh Debian 12 and 13, and in Pythons on musl, without the GIL, and on ARM (as root)
	@scripts/test-wheels

book: ## build the book: docs/book/index.html
	@scripts/setup build
	@scripts/book

fuzz: ## run the conformance suite with AddressSanitizer, and every fuzz target for SECONDS (60)
	@scripts/setup test
	@scripts/fuzz "$(SECONDS)"

miri: ## run tests in miri: core, and the pool of contexts in the software driver
	@scripts/setup build
	@scripts/miri

constant-time: ## check in valgrind that no branch and no address in the lanes depends on a secret
	@scripts/setup test
	@scripts/constant-time

counts: ## count the instructions of a dispatch and compare with the recorded counts
	@scripts/setup test
	@scripts/counts

cycles: ## estimate the cycles of the lanes' loops on ARM and compare with the recorded estimates
	@scripts/setup test
	@scripts/cycles

newcomer: ## run the commands of the README in a fresh Debian, as a user who has rustup (needs root)
	@scripts/newcomer

fmt: ## format all Rust code
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml

help: ## print this list
	@printf 'The first three:\n\n'
	@sed -n 's/^\([a-z-]*\):.*##! /\1\t/p' Makefile | while IFS=$$'\t' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done
	@printf '\nThe others:\n\n'
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS=$$'\t' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done
