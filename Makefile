# Each target works as the first command on a clean machine with Python and make; set-up is done once, in .venv.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
export OMP_WAIT_POLICY ?= PASSIVE  # idle threads sleep instead of spinning

.PHONY: demo test docs lint unit constraints clean

demo: $(STAMP)  ## cluster real images and write a page that shows them
	$(BIN)/cgmcr2 demo -o demo-run

test: lint unit  ## everything that CI runs

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadgroup --cov --cov-report=term:skip-covered

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

docs: .venv/.docs-installed  ## build the site into docs/_build/html; warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

.venv/.docs-installed: $(STAMP)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

constraints: .venv/.docs-installed  ## pin the installed versions, for Python 3.11 and newer
	(echo "# Written by 'make constraints'. torch is pinned for every Python: newer builds bring several GB of CUDA packages."; \
	 $(BIN)/pip freeze --exclude-editable | sed 's/+cpu//' | \
	 sed -E '/^(torch==|#|-e)/! s/$$/ ; python_version >= "3.11"/') > constraints.txt

clean:
	rm -rf .venv demo-run docs/_build
