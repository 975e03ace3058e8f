# Both commands set up everything they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test chaos mutants check setup chromium clean
.DELETE_ON_ERROR:

demo: setup  ## certify a small network, change it, re-certify it, and show what was gained
	$(BIN)/recert demo

test: setup check chromium  ## lint, types, tests
	$(BIN)/pytest -n 2 --dist loadfile

chaos: setup  ## real faults that take long: lost nodes, killed drivers, a clock that jumps
	-@command -v faketime > /dev/null || apt-get install -qq faketime
	$(BIN)/pytest -m chaos tests/faults

mutants: setup  ## change the code in thousands of small ways and see that tests fail (MUTANTS="--only bounds", "--sample 200")
	$(BIN)/python -m tests.mutants $(MUTANTS)

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Reports are tested in a real browser where one may be installed (as root, with apt-get); elsewhere those tests skip.
APT := apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=15
chromium:
	@if ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Chromium, to test reports in"; \
		export DEBIAN_FRONTEND=noninteractive; \
		{ $(APT) update && $(APT) -y --no-install-recommends install chromium fonts-dejavu-core; } >/dev/null 2>&1 \
		|| echo "Chromium could not be installed"; \
	fi

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) recert-demo
