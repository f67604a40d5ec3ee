# Targets; `make help` lists them.
GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
# By number, not by time: at the end of its time a fuzzing run may take the end
# itself for a failure (go.dev/issue/75804).
FUZZTIME ?= 2000x

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

.PHONY: test
test: ## Run all tests. Needs nothing but Go.
	$(GO) test ./...

.PHONY: check
check: fmt vet staticcheck race fuzz ## Formatting, vet, staticcheck, the race detector, short fuzzing, every benchmark once.
	$(GO) test -run '^$$' -bench . -benchtime 1x ./... > /dev/null

.PHONY: fmt
fmt: ## Fail if gofmt would change a file.
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi

.PHONY: vet
vet: ## go vet.
	$(GO) vet ./...

.PHONY: staticcheck
staticcheck: ## staticcheck, pinned.
	$(GO) run $(STATICCHECK) ./...

.PHONY: race
race: ## All tests under the race detector.
	$(GO) test -race ./...

.PHONY: fuzz
fuzz: ## Each fuzz target with FUZZTIME inputs (2000x; a duration does, too).
	@log=$$(mktemp); trap 'rm -f $$log' EXIT; $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' ./... | while read -r pkg dir; do \
		for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go 2>/dev/null | sed 's/^func //'); do \
			echo "fuzz $$pkg $$f"; \
			$(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) "$$pkg" > $$log 2>&1 || { cat $$log; exit 1; }; \
		done; \
	done

SEEDS ?= 200
FIRST ?= 1
.PHONY: sim
sim: ## Play SEEDS (200) simulated fleets, from seed FIRST (1) on, on two processors: half by lease count, half by load.
	@dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; $(GO) test -c -o $$dir/sim.test ./internal/sim && cd internal/sim && \
		half=$$(( $(SEEDS) / 2 )); pids=; \
		play() { $$dir/sim.test -test.run "^$$1$$" -test.v -test.timeout 24h -seed $$2 -seeds $$3 > $$dir/$$2 2>&1; }; \
		if [ $$half -gt 0 ]; then play TestFleet $(FIRST) $$half & pids=$$!; fi; \
		play TestFleetByLoad $$(( $(FIRST) + half )) $$(( $(SEEDS) - half )); rc=$$?; \
		if [ -n "$$pids" ]; then wait $$pids || rc=1; fi; \
		cat $$dir/*[0-9] | awk ' \
			/virtual hours, [0-9]+ calls$$/ { seeds += $$2; hours += $$4; calls += $$7; next } \
			/^ +[0-9]+ [a-z]/ { n = $$1; $$1 = ""; sum[$$0] += n; next } \
			!/^===|^ *--- (PASS|SKIP)|^PASS/ { print } \
			END { printf "%d seeds, %.1f virtual hours, %d calls\n", seeds, hours, calls; for (what in sum) printf "%8d%s\n", sum[what], what | "sort -k2" }'; \
		exit $$rc

.PHONY: sim-any
sim-any: ## Play four fleets from seeds that nobody has chosen; what they find is told and does not fail.
	-$(GO) test ./internal/sim -run '^TestFleet(ByLoad)?$$' -v -timeout 10m -args -any-seeds 2 -shrink 20s 2>&1 | grep -vE '^=== '

.PHONY: sim-day
sim-day: ## A day, and an hour at default settings, of 20 workers on 200 shards; an hour after a step in load; eight of fleets mixed with Java's rules; 150 lives of the single-table migration.
	$(GO) test ./internal/sim -run '^(TestDay|TestHour|TestStepInLoad|TestFleetWithJava|TestMigration)$$' -v -timeout 90m -args -full-day

GAP_SEEDS ?= 50
.PHONY: gaps
gaps: ## Measure the gaps in delivery, worst of GAP_SEEDS (50), in seconds of virtual time.
	@out=$$(mktemp); $(GO) test ./internal/sim -run '^TestGaps$$' -timeout 2h -args -gap-seeds $(GAP_SEEDS) -gap-json $$out >&2 && cat $$out; rm -f $$out

# The emulators that internal/conformance asks, and where they are installed.
MOTO = 5.2.5
DYNALITE = 4.0.0
KINESIS_LOCAL = 0.6.2
EMULATORS = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kcl-conformance/$(MOTO)-$(DYNALITE)-$(KINESIS_LOCAL)

.PHONY: conformance
conformance: $(EMULATORS)/complete ## Hold kcltest, moto, dynalite and kinesis-local against one suite. Installs them; needs Python 3 and Node 20.
	$(GO) vet -tags conformance ./internal/conformance
	KCL_CONFORMANCE="$(EMULATORS)" $(GO) test -tags conformance -run TestEmulators -count 1 -timeout 30m -parallel 4 -v ./internal/conformance

$(EMULATORS)/complete:
	mkdir -p "$(EMULATORS)/node"
	python3 -m venv "$(EMULATORS)/moto"
	"$(EMULATORS)/moto/bin/pip" install --quiet 'moto[server]==$(MOTO)'
	npm install --silent --no-save --prefix "$(EMULATORS)/node" dynalite@$(DYNALITE) kinesis-local@$(KINESIS_LOCAL)
	touch "$@"

# Scenario test names are Test and the name: RUN=Leaders plays TestLeaders.
RUN ?=
KCL_JAVA ?= 3.5.1
# The release that begins what TestMigrate moves.
KCL_JAVA_LEGACY = 3.4.0
INTEROP_ARGS ?=
.PHONY: interop interop-short interop-needs
interop: interop-needs ## Play the scenarios of a fleet of Java and Go workers, or RUN=name. Needs Java 17 and Maven; KCL_SKIP_INTEROP=1 waives them.
	@[ "$(KCL_SKIP_INTEROP)" = 1 ] || { internal/interop/javapeer/run $(KCL_JAVA_LEGACY) --resolve && $(GO) vet -tags interop ./internal/interop && \
		$(GO) test -tags interop -run '^Test$(or $(RUN),(Watch|Short|Lead|Roll|Hand|Reshard|Prepared|Shard|Freeze|Hundred|Migrate).*)$$' -count 1 -timeout 3h ./internal/interop -v -args -java $(KCL_JAVA) $(INTEROP_ARGS); }

interop-short: interop-needs ## The scenario for continuous integration: a minute, at most four. Needs and waiver as above.
	@[ "$(KCL_SKIP_INTEROP)" = 1 ] || { $(GO) vet -tags interop ./internal/interop && \
		$(GO) test -tags interop -run '^Test(Short|Watch.*)$$' -count 1 -timeout 4m ./internal/interop -v; }

interop-needs:
	@if [ "$(KCL_SKIP_INTEROP)" = 1 ]; then echo "interop: waived by KCL_SKIP_INTEROP=1: nothing is shown of Java workers"; \
	else for c in java javac mvn; do command -v $$c > /dev/null || { \
		echo "interop: $$c is missing; install Java 17 and Maven, or waive these tests with KCL_SKIP_INTEROP=1" >&2; exit 1; }; done; \
		internal/interop/javapeer/run $(KCL_JAVA) --resolve; fi

.PHONY: bench
bench: ## Run the benchmarks.
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: demo
demo: ## Run the example consumer on the embedded AWS.
	$(GO) run ./examples/consumer
