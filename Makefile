# Short names for the README's commands; nothing here is needed to use the project.
PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: run test slow-test lint format notebooks docs ci clean

.venv/ready: setup.py requirements.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -e '.[test]'
	touch $@

run: .venv/ready  ## the built-in example: train, decode, score
	$(BIN)/python -m t2t_repro.trainer

test: .venv/ready
	$(BIN)/python -m pytest

slow-test: .venv/ready
	$(BIN)/python -m pytest -m slow

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/check_words.py

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

LESSONS := paper_in_code your_own_text inside_a_run

notebooks: $(LESSONS:%=notebooks/%.ipynb)  ## the lessons, run, with their outputs

.venv/notebooks: .venv/ready
	$(BIN)/pip install -e '.[notebooks]'
	touch $@

notebooks/%.ipynb: notebooks/%.py notebooks/number_words.py .venv/notebooks
	$(BIN)/jupytext --to ipynb --execute --output $@ $<

docs: .venv/ready  ## the API reference, into build/api
	$(BIN)/python docs/api.py build/api

ci:  ## what .ci/run does, in a virtual environment of its own
	.ci/run

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
