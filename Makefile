# Each target works as the first command on a clean machine with Python and make; set-up is done once, in .venv.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
export OMP_WAIT_POLICY ?= PASSIVE  # waiting threads sleep: kind to a shared machine

.PHONY: demo test lint unit constraints clean

demo: $(STAMP)  ## cluster real images and write a page that shows them
	$(BIN)/cgmcr2 demo -o demo-run

test: lint unit  ## everything that CI runs

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(STAMP)
	$(BIN)/pytest --cov --cov-report=term:skip-covered

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

.PHONY: docs
docs: .venv/.docs-installed  ## build the site into docs/_build/html; warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

.venv/.docs-installed: $(STAMP)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

constraints: $(STAMP)  ## pin what is installed now; newer Pythons only, since the newest releases leave older ones behind
	(echo "# Made by 'make constraints'. torch is pinned for every Python, or several GB of CUDA packages come along."; \
	 $(BIN)/pip freeze --exclude-editable | sed 's/+cpu//' | \
	 sed -E '/^(torch==|#|-e)/! s/$$/ ; python_version >= "3.11"/') > constraints.txt

clean:
	rm -rf .venv demo-run
