# The commands of the project. Longer ones are scripts in scripts/.
# `make help` prints this list.

SHELL := /bin/bash
PREFIX ?= /usr/local
SECONDS ?= 60
# rustup's own place, for shells that have not read its settings yet
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.PHONY: run test install build test-deep test-clients lint bench reproduce lab packages packages-test wheels wheels-test book fuzz miri constant-time counts cycles newcomer fmt help

.DEFAULT_GOAL := build

run: ##! list and check the devices, hash real files beside coreutils, measure beside OpenSSL
	@scripts/run

test: ##! the tests of every crate on this CPU; needs no root, 20 to 30 minutes on two cores
	@scripts/test

install: ##! install under PREFIX (/usr/local): binary, *sum links, OpenSSL provider, C library, vectors, man pages, completions; knows DESTDIR
	@scripts/install "$(DESTDIR)" "$(PREFIX)"

build: ## build the release: target/release/gantry, beside it the OpenSSL provider and vectors for `gantry check`, and the library for C
	@scripts/setup build
	@scripts/build

test-deep: ## the tests that need root, a nightly Rust, emulators, guests or IKE daemons, and other CPU levels; installs what they need
	@scripts/test-deep

test-clients: ## the OpenSSL provider in programs whose tests take long: PostgreSQL, OpenVPN, strongSwan, 10,000 handshakes, keys in hardware, a fresh Debian, OpenSSL's own tests and those of CPython, Ruby, Perl and others, valgrind; wolfSSL over /dev/crypto
	@scripts/test-clients

lint: ## format, clippy, licences, layering, shell scripts, documentation and its links
	@scripts/lint

bench: ## all benchmarks against peers, half an hour; rewrites docs/src/benchmarks.md from benches/results
	@scripts/setup bench
	@benches/peers/run

reproduce: ## published figures beside those of Gantry on models of the same machines: gantry-reproduce; Table 9 needs root and iperf3
	@scripts/setup build
	@cargo build --locked --release -p gantry-crypto-cli --features model -p gantry-reproduce
	@target/release/gantry-reproduce

lab: ## tests under real kernels, in guests: all of them, on Linux 6.1 and 6.12
	@scripts/lab

packages: ## packages for Debian and RPM, a static program, an OCI image, bills of materials: target/packages
	@scripts/packages

packages-test: ## build them in two folders and compare; install, use and purge them in a fresh Debian 12 and 13 (as root)
	@scripts/packages-test

wheels: ## Python wheels for x86_64 and aarch64, glibc and musl, with and without the GIL, from 3.9 on: target/wheels
	@scripts/setup build
	@scripts/wheels

wheels-test: ## the wheels in a fresh Debian 12 and 13, in a Python on musl, in one without the GIL, and in one of ARM (as root)
	@scripts/test-wheels

book: ## build the book: docs/book/index.html
	@scripts/setup build
	@scripts/book

fuzz: ## run the conformance suite with AddressSanitizer, and every fuzz target, SECONDS (60) each
	@scripts/setup test
	@scripts/fuzz "$(SECONDS)"

miri: ## the tests in miri: core, and the pool of contexts in the software driver
	@scripts/setup build
	@scripts/miri

constant-time: ## in valgrind: no branch and no address in the lanes depends on a secret
	@scripts/setup test
	@scripts/constant-time

counts: ## count the instructions of a dispatch and compare with the recorded ones
	@scripts/setup test
	@scripts/counts

cycles: ## estimate the cycles of the lanes' loops on ARM and compare with the recorded ones
	@scripts/setup test
	@scripts/cycles

newcomer: ## the commands of the README in a fresh Debian, by a user who has rustup (as root)
	@scripts/newcomer

fmt: ## format all Rust code
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml

help: ## print this list
	@printf 'The first three:\n\n'
	@sed -n 's/^\([a-z-]*\):.*##! /\1\t/p' Makefile | while IFS=$$'\t' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done
	@printf '\nThe others:\n\n'
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS=$$'\t' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done
