# lakecore. Every target works on a fresh clone; `make setup` is done once and again when a lock file changes.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup setup-tests test fast lint format check faults bench bench-check bench-small figures fuzz branch-walks changes-beneath chore-walks schema-walks fuzz-bytes fuzz-paths flink-soak hive-kinds catalog-sequences stream-soak epoch-kills kills race side-by-side mutants spark-versions airflow-versions airflow-celery airflow-local docs demo image sbom compose-test prometheus-test clean

VENV := .venv/bin/python
# `PYTHON=/path/to/python make setup` names the interpreter of a new .venv (tools/setup.sh)
# tests that need the machine for themselves: real services of Airflow, which begin first because one process has them all, and of Spark
ALONE := tests/dags tests/spark
# wherever it is set, each process of Spark and Airflow would compile all that it imports
export PYTHONDONTWRITEBYTECODE :=

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: ## .venv from requirements.lock, and a Java runtime when there is none
	@tools/setup.sh base

setup-tests: setup
	@tools/setup.sh tests

test: setup-tests ## all tests: three processes, for many wait for Java, storage, Spark or Airflow, whose tests are at the end
	@failed=0; \
	$(VENV) -m pytest -n 3 --dist worksteal $(patsubst %,--ignore=%,$(ALONE)) || failed=1; \
	$(VENV) -m pytest -n 3 --dist loadgroup --no-loadscope-reorder $(ALONE) || failed=1; \
	exit $$failed

fast: setup ## the fast tests alone
	$(VENV) -m pytest -m "not slow"

lint: setup ## format, lint, types and import layers
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: setup ## rewrite the code in the project's format
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

check: lint fast ## what every commit must pass

faults: setup-tests ## storage fails at each operation of each chore in each way, which take turns in `make test` (an hour or two)
	LAKECORE_FAULTS=all $(VENV) -m pytest -n 2 tests/faults tests/lakecore/jobs/test_table_services.py

bench: setup-tests ## plan, proof and compaction benches, next to Java Paimon (minutes)
	$(VENV) -m tests.bench

bench-check: setup-tests ## what became slower by more than 10 % than the committed figures: BENCHES="read write", FIGURES=folder (compares only)
	$(VENV) -m tests.bench.check $(if $(FIGURES),--figures $(FIGURES)) $(BENCHES)

bench-small: setup-tests ## the same benches, reduced
	$(VENV) -m tests.bench --small

figures: setup ## the tables of figures in README.md and docs/performance.md, from docs/figures
	$(VENV) -m tests.bench.readme

fuzz: setup-tests ## histories of lakecore and Java in turns: SEED=1 MINUTES=5, or HISTORY=file; THROUGH=spark
	$(VENV) -m tests.fuzz $(if $(THROUGH),--through $(THROUGH)) $(if $(HISTORY),--history $(HISTORY),--seed $(or $(SEED),1) --minutes $(or $(MINUTES),5))

branch-walks: setup-tests ## branches, tags, rollbacks and undos of one table against a model: SEED=1 MINUTES=5
	$(VENV) -m tests.fuzz.branch_walk --seed $(or $(SEED),1) --minutes $(or $(MINUTES),5)

changes-beneath: setup-tests ## changes of Java and lakecore at one operation of a chore: SEED=1 MINUTES=5, SHAPES, CHORES, CHANGES
	$(VENV) -m tests.fuzz.changes_beneath --seed $(or $(SEED),1) --minutes $(or $(MINUTES),5) --shapes '$(SHAPES)' --chores '$(CHORES)' --changes '$(CHANGES)'

chore-walks: setup-tests ## all chores of one table against a model of its rows, with Java: SEED=1 MINUTES=5
	$(VENV) -m tests.fuzz.chore_walk --seed $(or $(SEED),1) --minutes $(or $(MINUTES),5)

schema-walks: setup-tests ## schemas and changes of lakecore, which Java must open: SEED=1 MINUTES=5
	$(VENV) -m tests.fuzz.schema_walk --seed $(or $(SEED),1) --minutes $(or $(MINUTES),5)

fuzz-bytes: setup-tests ## damaged bytes for every decoder: SEED=1 CASES=2000 (each)
	$(VENV) -m tests.fuzz.damage --seed $(or $(SEED),1) --cases $(or $(CASES),2000)

fuzz-paths: setup-tests ## hostile paths in every record, and every chore on them: SEED=1 CASES=3000 MINUTES=60
	$(VENV) -m tests.fuzz.hostile --seed $(or $(SEED),1) --cases $(or $(CASES),3000) --minutes $(or $(MINUTES),60)

flink-soak: setup-tests ## streaming jobs of Flink, killed and restored, beside maintenance: COUNT=30000 KILLS=2 SEED=1
	$(VENV) -m tests.fuzz.flink_soak --count $(or $(COUNT),30000) --kills $(or $(KILLS),2) --seed $(or $(SEED),1)

hive-kinds: setup-tests ## Paimon, format, object and external tables of a Hive catalog by Java and lakecore in turns: COUNT=500
	for version in 1.4.2 2.0.0; do \
		LAKECORE_HIVE_VERSION=$$version LAKECORE_HIVE_SEQUENCES=$(or $(COUNT),500) \
			$(VENV) -m pytest -q -s --timeout 0 tests/interop/test_hive_kinds_oracle.py || exit 1; done

catalog-sequences: setup-tests ## all that JDBC and REST catalogs have, users and privileges, changed by Java and lakecore in turns: COUNT=500
	LAKECORE_KIND_SEQUENCES=$(or $(COUNT),500) LAKECORE_PRIVILEGE_SEQUENCES=$(or $(COUNT),500) LAKECORE_CATALOG_SEQUENCES=$(or $(COUNT),500) \
		$(VENV) -m pytest -q -s --timeout 0 tests/interop/test_catalog_kinds_oracle.py tests/interop/test_privileges_oracle.py tests/interop/test_catalogs_oracle.py -k "after_each_step or tables_in_turns"

stream-soak: setup-tests ## streaming queries of Spark, whose drivers, workers and executors are killed: MINUTES=30 SEED=1
	$(VENV) -m tests.fuzz.stream_soak --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1)

epoch-kills: setup-tests ## kill a streaming query of Spark at each change that an epoch makes: STEP=1
	$(VENV) -m pytest --every-kill -o timeout=7200 tests/faults/test_epoch_kill.py
	$(VENV) -m tests.fuzz.epoch_kills --step $(or $(STEP),1)

kills: setup-tests ## kill every chore after each change that it makes (a quarter of an hour or more)
	$(VENV) -m pytest --every-kill -o timeout=7200 tests/faults/test_maintain_kill.py

race: setup-tests ## Java Paimon and lakecore commit to one table, each commit is accounted for: MINUTES=10, OLD=checkout
	$(VENV) -m tests.bench.race --minutes $(or $(MINUTES),10) $(if $(OLD),--old $(OLD))

side-by-side: setup-tests ## Java writes nine kinds of tables while lakecore does its chores on them: MINUTES=10 SEED=1
	$(VENV) -m tests.bench.side_by_side --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1)

mutants: setup-tests ## one-line bugs in a copy: do tests catch them, are wrong rows refused: JOBS=2 MUTANTS='--only ID', or '--random 100 --seed 1'
	@test -f .cache/mutants/calls.jsonl || $(VENV) -m tests.mutants.calls
	$(VENV) -m tests.mutants --jobs $(or $(JOBS),2) $(MUTANTS)

# MkDocs announces the end of its theme (May 2027) at every build; ROADMAP.md has that
docs: ## one site of guides, architecture, glossary and reference, in .cache/site; a broken link fails
	@tools/setup.sh docs
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	@echo "docs: open .cache/site/index.html"

spark-versions: setup-tests ## one pipeline with every PySpark from 3.5 to 4.2, each in an environment in .cache (1.7 GB of downloads)
	$(VENV) -m tests.spark_versions

airflow-versions: setup-tests ## the tests of operators and DAGs with Airflow 3.1 and 3.2, each in an environment in .cache
	$(VENV) -m tests.airflow_versions

airflow-celery: setup-tests ## all DAGs on CeleryExecutor, PostgreSQL and Redis, with workers that are killed: ONLY=kill (Debian's postgresql, redis-server)
	$(VENV) -m tests.airflow_executors --executor CeleryExecutor $(if $(ONLY),--only "$(ONLY)")

airflow-local: setup-tests ## all DAGs on LocalExecutor, PostgreSQL and a cluster of Spark, in processes that are killed: ONLY=kill (Debian's postgresql)
	$(VENV) -m tests.airflow_executors --executor LocalExecutor $(if $(ONLY),--only "$(ONLY)")

demo: setup ## compact a small lake with Airflow and Spark, and show before and after
	$(VENV) -m tools.demo

image: ## the images of docker/Dockerfile: the command line, Spark, Airflow (docker, or buildah where there is no daemon)
	docker/build.sh

sbom: setup ## bills of materials (CycloneDX) of the locks of the images, in .cache/sbom; each image has that of what it contains
	UV_SYSTEM_CERTS=true .venv/bin/uv venv -q --allow-existing .cache/sbom/venv
	UV_SYSTEM_CERTS=true .venv/bin/uv pip install -q --python .cache/sbom/venv --require-hashes -r tools/sbom.lock
	for lock in cli spark airflow; do .cache/sbom/venv/bin/cyclonedx-py requirements --output-reproducible --of JSON -o .cache/sbom/$$lock.cdx.json docker/locks/$$lock.lock || exit 1; done
	@ls -l .cache/sbom/*.cdx.json

prometheus-test: setup-tests ## Debian's Prometheus scrapes a running Airflow; each query of the board of Grafana has series
	@command -v prometheus >/dev/null || { echo "install Debian's package prometheus"; exit 1; }
	$(VENV) -m pytest tests/dags/prometheus_board.py

compose-test: setup ## build the images, start the stack of docker/compose.yaml, run its DAGs, kill parts of it (podman, buildah, mmdebstrap, Go)
	UV_SYSTEM_CERTS=true .venv/bin/uv pip install -q --python .venv --target .cache/compose/python --require-hashes -r tests/docker/podman-compose.lock
	$(VENV) -m tests.docker

clean: ## remove what make and the tests made; the virtual environments stay
	rm -rf .cache .demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist spark-warehouse
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
