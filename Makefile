# One entry for people and CI. `make` lists the targets; every target does the set-up it needs.

HOST   ?= 127.0.0.1
PORT   ?= 8765
CONFIG ?= examples/mcp.json
# The first that is new enough; a name on PATH alone proves nothing (pyenv puts names there that do not run).
PYTHON ?= $(shell for p in python3.11 python3 python3.14 python3.13 python3.12; do \
	    "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
UV     := uv>=0.9
# Which torch: arguments of pip, none for what PyPI has for this platform. On Linux that comes with 2 GB for NVIDIA cards,
# which `make serve TORCH='torch --index-url https://download.pytorch.org/whl/cpu'` leaves out.
TORCH  ?=
SERVE  := $(if $(LIGHT),.venv/.serve-light,.venv/.serve)
BIN    := .venv/bin

# Figures of one run go here (ignored by git); bench/README.md keeps the published ones.
OUT := bench/out

.DEFAULT_GOAL := help
.PHONY: help serve test check learn bench-learn bench-tokens bench-tokens-gate bench-overhead bench-search bench-cold bench-sandbox bench-stubs bench-store bench-judge bench-agent bench-online kill soak attack conformance clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: $(SERVE) ## set up, then serve CONFIG on HOST:PORT; LIGHT=1 without torch, which then ranks by words alone
	$(BIN)/toolatlas serve --config '$(CONFIG)' --host '$(HOST)' --port '$(PORT)'

test: check ## set up, then lint, types and all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

check: .venv/.test ## set up, then lint, formatting and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

attack: .venv/.test ## attacks on the sandbox, each with and without what stops it (needs a Docker engine)
	$(BIN)/python -m tests.attacks $(ARGS)

conformance: .venv/.test ## the official conformance suite: a server alone, and behind the gateway
	$(BIN)/python -m tests.conformance

bench-tokens: .venv/.bench $(OUT) ## tokens that an agent sees, against all schemas at once
	$(BIN)/python -m bench tokens --json $(OUT)/tokens.json $(ARGS)

bench-tokens-gate: .venv/.test ## fail when 28 servers cost an agent more than 1,200 tokens
	$(BIN)/python -m bench tokens --max 1200

bench-overhead: .venv/.bench $(OUT) ## what the gateway adds to a call, beside other proxies
	$(BIN)/python -m bench overhead --json $(OUT)/overhead.json $(ARGS)

bench-search: .venv/.bench $(OUT) ## quality, speed and memory of search_tools
	$(BIN)/python -m bench search --json $(OUT)/search.json $(ARGS)

bench-cold: .venv/.bench $(OUT) ## a start with nothing cached: first answer, first search, all listed
	$(BIN)/python -m bench cold --json $(OUT)/cold.json $(ARGS)

bench-sandbox: .venv/.bench $(OUT) ## what code in containers costs, and what it saves (needs a Docker engine)
	$(BIN)/python -m bench sandbox --json $(OUT)/sandbox.json $(ARGS)

bench-stubs: .venv/.bench $(OUT) ## all tools of a catalogue as Python stubs: valid, exact and short
	$(BIN)/python -m bench stubs --json $(OUT)/stubs.json $(ARGS)

bench-store: .venv/.bench $(OUT) ## what logging costs a call; a million steps written and read; page times
	$(BIN)/python -m bench store --json $(OUT)/store.json $(ARGS)

bench-agent: .venv/.bench $(OUT) ## the agent loop in four variants: turns and tokens (TOOLATLAS_AGENT_URL, _MODEL for a real model)
	$(BIN)/python -m bench agent --json $(OUT)/agent.json $(ARGS)

bench-judge: .venv/.bench $(OUT) ## whether rewards tell good runs from defective ones (needs PyPI and npm; minutes to make the runs)
	$(BIN)/python -m bench judge --json $(OUT)/judge.json $(ARGS)

bench-online: .venv/.bench $(OUT) ## GRPO through the live gateway with a tiny model: better in three seeds (minutes)
	$(BIN)/python -m bench online --json $(OUT)/online.json $(ARGS)

learn: .venv/.bench $(OUT) ## simulated: from an empty log to an adapter that serves, with a table of before and after (30 minutes)
	$(BIN)/python -m bench learn --quick --json $(OUT)/learn-quick.json $(ARGS)

bench-learn: .venv/.bench $(OUT) ## simulated: what learning is worth, in three seeds, and what it does with poison (3 hours)
	$(BIN)/python -m bench learn --json $(OUT)/learn.json $(ARGS)

kill: .venv/.bench ## 20 rounds of 2,000 calls with kill -9, on both databases
	KILL_ROUNDS=20 KILL_CALLS=2000 $(BIN)/python -m pytest tests/kill -q -s

soak: .venv/.bench $(OUT) ## ten minutes: 200 agents, 8 servers, one killed every 20 s
	$(BIN)/python -m bench soak --json $(OUT)/soak.json $(ARGS)

clean: ## remove the virtual environment and everything made by tools
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist *.egg-info $(OUT)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(OUT):
	mkdir -p $@

# The stamps record what was installed, so that set-up runs once, and again when the dependencies change.
.venv/.python:
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo 'toolatlas needs Python 3.11 or newer, and found none: install it, or run make PYTHON=/path/to/python3.11' >&2; \
	    exit 1; }
	'$(PYTHON)' -m venv .venv
	$(BIN)/python -m pip install --quiet 'pip>=25.1'
	touch $@

# uv brings uvx, with which most Python servers are started.
.venv/.serve-light: .venv/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable . '$(UV)'
	touch $@

.venv/.serve: .venv/.python pyproject.toml
	$(if $(TORCH),$(BIN)/python -m pip install --quiet $(TORCH))
	$(BIN)/python -m pip install --quiet --editable '.[router]' '$(UV)'
	touch $@

.venv/.test: .venv/.python pyproject.toml
	$(if $(TORCH),$(BIN)/python -m pip install --quiet $(TORCH))
	$(BIN)/python -m pip install --quiet --editable '.[trainer]' '$(UV)' --group dev
	touch $@

.venv/.bench: .venv/.python pyproject.toml
	$(if $(TORCH),$(BIN)/python -m pip install --quiet $(TORCH))
	$(BIN)/python -m pip install --quiet --editable '.[trainer]' --group bench
	touch $@
