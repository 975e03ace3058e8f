# Both commands set up everything they need; the demo needs less.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test pictures chaos mutants check docs setup chromium lock audit clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo  ## certify a small network, change it, re-certify it, and show what was gained
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

# Whoever reads the site loads nothing from elsewhere; --strict: a link that leads nowhere is an error.
docs: setup  ## build the documentation site: site/index.html opens from disk
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Reports are tested in a real browser where one may be installed (as root, with apt-get); elsewhere those tests skip.
APT := apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=15
chromium:
	@if ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Chromium, to test reports in"; \
		export DEBIAN_FRONTEND=noninteractive; \
		{ $(APT) update && $(APT) -y --no-install-recommends install chromium fonts-dejavu-core; } >/dev/null 2>&1 \
		|| echo "Chromium could not be installed"; \
	fi

setup: $(VENV)/.dev

# Locked versions with hashes first; torch by its version, with what its build needs besides; docs/dependencies.md says why.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
$(VENV)/.demo: LOCK = requirements.lock
$(VENV)/.demo: requirements.lock
$(VENV)/.dev: LOCK = requirements-dev.lock
$(VENV)/.dev: requirements-dev.lock
$(VENV)/.demo $(VENV)/.dev: $(VENV)/.%: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@if $(BIN)/python tools/lock.py holds $(LOCK); then \
		set -ex; \
		$(PIP) --require-hashes --no-deps -r $(LOCK); \
		$(PIP) -r constraints.txt; \
		$(PIP) --no-deps --no-build-isolation -e .; \
		$(BIN)/python -m pip check; \
	else \
		set -ex; \
		$(PIP) --upgrade pip; \
		$(PIP) -c constraints.txt -e '.[$*]'; \
	fi
	touch $@

pictures: setup chromium  ## make the pictures of README and documentation again (PICTURES="how report" for some)
	$(BIN)/python docs/make_pictures.py $(PICTURES)

lock:  ## choose the newest versions that pyproject.toml allows, and write them with their hashes to both locks
	$(PYTHON) tools/lock.py

# --strict: a package of which the service knows nothing is a failure, not a pass.
audit:  ## ask for known vulnerabilities of the locked packages (AUDIT="-s osv" asks another service)
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install --quiet --upgrade pip pip-audit
	$(VENV)-audit/bin/pip-audit --strict --disable-pip --no-deps -r requirements-dev.lock -r constraints.txt $(AUDIT) || { \
		echo "not passed: see above whether vulnerabilities were found, or the service could not be asked (then nothing is known)"; \
		exit 1; }

clean:
	rm -rf $(VENV) $(VENV)-audit recert-demo site
