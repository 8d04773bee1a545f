# `make demo` and `make test` set up everything they need in .venv; nothing else has to be installed but Python 3.10+.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MINUTES ?= 5
PAPER ?= --quick
FIGURES ?=
ARM_PACKAGES := qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross
RISCV_PACKAGES := qemu-user-static gcc-riscv64-linux-gnu libc6-dev-riscv64-cross
BROWSER_PACKAGES := chromium chromium-driver
WASM_PACKAGES := clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32

.PHONY: demo smoke test test-long test-peers test-peers-short test-browser test-arm test-fleet mutants bench soak docs tutorial dist lint test-gpu test-outside figures figures-pages paper test-riscv test-wasm clean

$(VENV)/.dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

$(VENV)/.outside: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[outside]'
	touch $@

$(VENV)/.fleet: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fleet]'
	touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

$(VENV)/.dist: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dist]'
	touch $@

demo: $(VENV)/.dev          ## tune a small network for a minute, compare with ONNX Runtime
	$(BIN)/tensorsmith demo

smoke: $(VENV)/.dev         ## a little of everything, in less than a minute: what to run while working
	$(BIN)/python -m pytest tests/test_smoke.py tests/test_layers.py tests/test_tests.py tests/mutants -n 2

test: $(VENV)/.dev          ## the tests; under 15 minutes on 2 cores
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-long: $(VENV)/.dev     ## thousands of random programs
	$(BIN)/python -m pytest -m "long and not peers" -n 2 --dist worksteal

test-peers: $(VENV)/.bench  ## what needs PyTorch and OpenVINO beside us; a peer that is missing is a failure
	$(BIN)/python -m pytest -m peers -n 2 --dist worksteal

test-peers-short: $(VENV)/.bench  ## the same without what takes minutes
	$(BIN)/python -m pytest -m "peers and not long" -n 2 --dist worksteal

test-outside: $(VENV)/.outside  ## Halide and TVM themselves as peers, from their wheels
	$(BIN)/python -m pytest tests/benchmarks/test_outside.py -m outside -n 2

test-arm: $(VENV)/.dev      ## code for AArch64 under an emulator; Debian's packages are installed where they are missing
	command -v qemu-aarch64-static && command -v aarch64-linux-gnu-gcc || (apt-get update -q && apt-get install -y -q $(ARM_PACKAGES))
	$(BIN)/python -m tests.arm.python
	$(BIN)/python -m pytest tests/arm -m "arm or not arm" -n 2 --dist worksteal

test-fleet: $(VENV)/.fleet  ## measuring on the nodes of a Ray cluster of this machine, with faults
	$(BIN)/python -m pytest tests/measure/fleet -m fleet -n 0

test-browser: $(VENV)/.dev  ## the report's page and notebooks' tables in Chromium; Debian's packages are installed where they are missing
	command -v chromium && command -v chromedriver || (apt-get update -q && apt-get install -y -q --no-install-recommends $(BROWSER_PACKAGES))
	$(BIN)/python -m pytest -m browser -n 0

test-gpu: $(VENV)/.bench    ## hundreds of kernels on PoCL, in interpreters and under oclgrind, which Debian's packages bring
	command -v oclgrind >/dev/null || apt-get install -y -q oclgrind ocl-icd-libopencl1
	command -v clang-19 >/dev/null && command -v ld.lld-19 >/dev/null || apt-get install -y -q clang-19 lld-19
	test -d build/hip/usr || (mkdir -p build/hip && cd build/hip && apt-get download -q libamdhip64-dev && dpkg -x libamdhip64-dev*.deb .)
	test -e build/intel/lib/libintelocl.so && test -e build/intel/lib/libsvml.so || ($(PYTHON) -m venv build/intel && build/intel/bin/python -m pip install --quiet intel-opencl-rt intel-cmplr-lib-rt)
	$(BIN)/python -m pytest tests/backends/gpu -m "gpu or not gpu" -n 2 --dist worksteal

test-riscv: $(VENV)/.dev    ## code for RISC-V with vectors, in the same way
	command -v qemu-riscv64-static && command -v riscv64-linux-gnu-gcc || (apt-get update -q && apt-get install -y -q $(RISCV_PACKAGES))
	$(BIN)/python -m pytest tests/riscv -m riscv -n 2 --dist worksteal

test-wasm: $(VENV)/.dev     ## code for WebAssembly, run by node
	command -v clang-19 && command -v wasm-ld-19 && test -e /usr/lib/wasm32-wasi/libc.a || (apt-get update -q && apt-get install -y -q $(WASM_PACKAGES))
	command -v node || apt-get install -y -q nodejs
	$(BIN)/python -m pytest tests/wasm -m wasm -n 2 --dist worksteal

mutants: $(VENV)/.dev       ## deliberate faults, one at a time: the tests have to notice each
	$(BIN)/python -m tests.mutants

bench: $(VENV)/.bench       ## side by side with PyTorch, against the FMA peak
	$(BIN)/python benchmarks/codegen.py

figures: $(VENV)/.bench $(VENV)/.outside  ## every figure of README and docs anew, three hours (FIGURES=--readme: an hour; --quick: a trial)
	$(BIN)/python benchmarks/figures.py $(FIGURES)

figures-pages: $(VENV)/.dev ## README and docs from the files of results that there are
	$(BIN)/python docs/make/figures.py

paper: $(VENV)/.bench       ## the paper's figures, small, in ten minutes (all of them: make paper PAPER='--trials 1000 --seeds 3')
	$(BIN)/python benchmarks/paper.py --out build/paper $(PAPER)

soak: $(VENV)/.dev          ## five minutes of tuning: memory must not grow (an hour: make soak MINUTES=60)
	$(BIN)/python benchmarks/soak.py --minutes $(MINUTES)

docs: $(VENV)/.docs         ## the docs as a site in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	$(BIN)/python docs/make/check_site.py build/site
	@echo "open build/site/index.html"

tutorial: $(VENV)/.dist     ## the tutorial from top to bottom, by the built wheel in a fresh environment
	$(BIN)/python -m pytest -m clean -s tests/clean/test_tutorial.py

dist: $(VENV)/.dist         ## wheel and sdist in dist/, tried in a clean environment
	rm -rf dist build/lib build/bdist.*
	$(BIN)/python -m build
	$(BIN)/python -m pytest -m clean tests/clean/test_dist.py

# Benchmarks are checked for calls that no longer exist; frameworks that they use have no types, or are not installed.
LOOSELY = --no-warn-unused-ignores $(addprefix --disable-error-code=,arg-type attr-defined call-overload import-not-found import-untyped misc \
	operator return-value union-attr)

lint: $(VENV)/.dev          ## ruff and mypy
	$(BIN)/ruff check src tests benchmarks examples docs/make
	$(BIN)/ruff format --check src tests benchmarks examples docs/make
	$(BIN)/mypy
	$(BIN)/mypy $(LOOSELY) benchmarks

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
