# Two commands for everybody: `make demo` and `make test`. `make check` is exactly what CI runs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# uv does not read pip's settings: hand it pip's find-links, if there are any.
FIND_LINKS := $(or $(PIP_FIND_LINKS),$(shell $(PYTHON) -m pip config get global.find-links 2>/dev/null))
ifneq ($(FIND_LINKS),)
export UV_FIND_LINKS ?= $(FIND_LINKS)
endif

# Modules are compiled once, not in each of the many processes that tests start, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install demo test chromium slow ray fuzz lint types imports docs check benchmarks clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/shortlist demo

test: $(STAMP)
	$(BIN)/python -m pytest -n auto

# The browser tests drive the Chromium of the system: CI installs it where it is missing.
chromium:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || test -z "$$CI" || \
	  { apt-get update -q && apt-get install -y -q --no-install-recommends chromium; }

slow: $(STAMP) chromium
	$(BIN)/python -m pytest -n auto -m 'slow and not ray' tests

# Starts Ray on this machine, one test after the other and after everything else: where many programs run, Ray can be too slow to
# start (its agent has a fixed time to begin). What fails is tried once more: processes are killed at random moments there.
ray: $(STAMP)
	$(BIN)/python -m pytest -m ray --durations=10 tests/cluster || $(BIN)/python -m pytest -m ray --last-failed tests/cluster

# Tries to break the library for so long; a failure is printed with the command that repeats it.
FUZZ_SECONDS ?= 600
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(if $(SEED),--seed $(SEED))

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict -q

check: lint types imports test slow docs ray

benchmarks: $(STAMP)
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e '.[peers]'
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) site runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
