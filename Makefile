# Both commands set up everything they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check setup clean
.DELETE_ON_ERROR:

demo: setup  ## certify a small network, change it, re-certify it, and show what was gained
	$(BIN)/recert demo

test: setup check  ## lint, types, tests
	$(BIN)/pytest -n 2 --dist loadfile

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) recert-demo
