# make            build ./hopbench
# make test       the tests, in five minutes; uses iperf3, ip, tc, ping, … where they are
# make test-…     those that take longer, see docs/testing.md: browser, simulations,
#                 wine, queues, gates, kill, flows, reach, sinks, soak, vm
# make check      formatting, vet, staticcheck, types on other systems
# make fuzz       fuzz every parser of outside bytes for a while (FUZZTIME=30s)
# make dist       archives, deb, rpm, SBOM and checksums in build/dist (DIST=linux/amd64 for one)
# make agents     the slim ./hopbench-agent-OS-CPU of all platforms, which ssh copies
# make bench-…    measurements; docs/benchmarks.md keeps their results
# make soak       honest and bad clients at one server with little to spend (SOAK=10m)

GO ?= go
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME ?= 30s
export CGO_ENABLED ?= 0
# As what is built for people is, so that tests, checks and packages share what was compiled.
export GOFLAGS ?= -trimpath

# What has to build and vet where: the portable part is everything, since what
# needs Linux has honest stubs elsewhere.
PLATFORMS = linux/amd64 linux/arm64 linux/arm/7 windows/amd64 darwin/arm64

# Without DWARF, which only debuggers read: 8 MB less. Symbols stay, so profiles and
# the traces of a crash have their names.
.PHONY: build
build:
	$(GO) build -trimpath -ldflags=-w -o hopbench ./cmd/hopbench

# The slim program, for each system that a machine at an end of a path may have. It
# speaks HTTP/1.1 alone, to the cloud that it is in and to a broker over WebSocket.
AGENT_TAGS = agent,nethttpomithttp2
.PHONY: agents
agents:
	@for p in $(PLATFORMS); do \
		set -- $$(echo $$p | tr / ' '); \
		echo "build hopbench-agent-$$1-$$2"; \
		GOOS=$$1 GOARCH=$$2 GOARM=$$3 $(GO) build -tags $(AGENT_TAGS) -trimpath -ldflags='-s -w' \
			-o hopbench-agent-$$1-$$2$$(GOOS=$$1 $(GO) env GOEXE) ./cmd/hopbench || exit 1; \
	done

# What people install. The same commit gives the same bytes.
.PHONY: dist
dist:
	@GO="$(GO)" packaging/dist $(DIST)

.PHONY: test
test:
	@test/run

# What takes longer than `make test` may. Each of them needs little more than its
# own program, so that they can be tried one by one.
.PHONY: test-browser test-queues test-sinks test-simulations test-wine test-gates test-kill test-flows test-kill-fleet test-reach test-soak
test-browser:
	@test/run -run '^TestBrowser' ./internal/report/... ./internal/ui
# Two packages at a time: they mostly wait for their brokers.
test-queues:
	@HOPBENCH_TEST_LONG=1 test/run -p 2 -run '^(TestBrokers|TestSeats)' ./internal/fleet/... ./internal/testbed/fleet
# They give way to whatever else runs: .ci/run has them beside tests that mostly wait. Those
# of detect need one CPU only.
test-simulations:
	@HOPBENCH_TEST_LONG=1 nice -n 19 test/run -p 2 -timeout 30m ./internal/analysis ./internal/watch/detect
test-wine:
	@test/run ./test/wine
# Three packages at a time, the longest first: they mostly wait.
test-kill:
	@HOPBENCH_TEST_LONG=1 test/run -p 3 -run '^(TestKilled|TestCancelled|TestPeerVanishes|TestServersOfWrongFrames|TestServersThatLie)' \
		./test/fleet ./internal/lab ./internal/probe ./internal/testbed/switching ./internal/store ./internal/fleet/collect ./internal/fleet/resume ./internal/fleet/bus ./internal/agent
# One package at a time: they bound what 10 000 flows need of memory.
test-flows:
	@HOPBENCH_TEST_LONG=1 test/run -run '^(TestManyFlows|TestManyCallers)$$' ./internal/probe/tcp ./internal/probe/crr
# It measures, and says what is wrong with what it measured: nothing else may run. At its
# end, trials that wait for what never comes do so together.
test-gates:
	@HOPBENCH_TEST_LONG=1 test/run -parallel 20 -run '^TestGatesCatch' ./internal/testbed/labtest
# What is killed of the runs of a fleet, run by run.
SEEDS ?= 100
FIRST ?= 1
TOGETHER ?= 8
test-kill-fleet:
	@test/run -timeout 0 -run '^TestKilledRuns$$' ./test/fleet -args -seeds $(SEEDS) -first $(FIRST) -together $(TOGETHER)
test-reach:
	@HOPBENCH_TEST_LONG=1 test/run -run '^(TestCoordinator|TestSSH)' ./internal/reach
# Needs Debian's postgresql, and azurite-table on PATH or in build/azurite.
test-sinks:
	@PATH=$$PATH:$(CURDIR)/build/azurite/node_modules/.bin test/run ./test/sinks
test-soak:
	@test/run ./test/soak

# Needs Debian, qemu-system-x86, kmod and what apt knows of the kernel; no root
# and no KVM. VM="-run TestVXLAN -console" and the like narrow it.
.PHONY: test-vm
test-vm:
	$(GO) run ./test/vm $(VM)

# The race detector needs cgo. Packages that build namespaces re-execute
# themselves and are left to `make test`, as are those where nothing is concurrent. The
# longest are at the end of the alphabet.
.PHONY: race
race:
	@CGO_ENABLED=1 GOFLAGS="$$GOFLAGS -race" test/run -p 6 -skip '^(TestBrowser|TestBrokers)' $$(test/packages-to-race | sort -r)

.PHONY: check
check: check-format check-vet check-static check-cross check-agent

.PHONY: check-format
check-format:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi

.PHONY: check-vet
check-vet:
	$(GO) vet ./...

.PHONY: check-static
check-static:
	$(STATICCHECK) ./...

# Whether all packages are right for all systems, and what the slim program needs links.
# make dist links the whole program.
.PHONY: check-cross
check-cross: agents
	@$(GO) run ./test/crosscheck $(PLATFORMS)

# The slim program stays slim: bytes at most, for linux/amd64.
AGENT_BYTES = 12000000
.PHONY: check-agent
check-agent:
	@$(GO) vet -tags $(AGENT_TAGS) ./cmd/hopbench
	@out=$$(mktemp) && trap 'rm -f "$$out"' EXIT && \
	GOOS=linux GOARCH=amd64 $(GO) build -tags $(AGENT_TAGS) -trimpath -ldflags='-s -w' -o "$$out" ./cmd/hopbench && \
	bytes=$$(wc -c <"$$out") && echo "the slim program has $$bytes bytes, of $(AGENT_BYTES)" && [ $$bytes -le $(AGENT_BYTES) ]

.PHONY: fuzz
fuzz:
	@test/fuzz $(FUZZTIME)

# Speed and accuracy. Each prints a table and takes a few minutes at most.
.PHONY: bench bench-aa bench-fleet bench-fleet-lab bench-hosts bench-lab bench-link bench-idps bench-peers bench-samples bench-paint bench-start bench-truth
bench: bench-lab bench-link bench-idps bench-peers bench-aa
# The noise floor: a path against itself. It should not say "costs".
bench-aa:
	$(GO) run ./cmd/hopbench run aa-null
# The same namespaces measured by a lab and as hosts: over TLS and, as root, over ssh
# (-part aa), with paths that commands switch (-part switched); and how far apart agents
# start (-part starts). HOSTS="-part aa -blocks 40 -out FOLDER" and the like.
bench-hosts: build
	$(GO) run ./bench/hosts $(HOSTS)
bench-lab:
	$(GO) run ./bench/lab
# How many machines one coordinator can have, simulated: joined, paired, started, their
# samples on the disk, back after it was started anew, and its memory, in 6 minutes at most.
# FLEET="-machines 1000" and the like narrow it.
bench-fleet:
	$(GO) run ./bench/fleet $(FLEET)
# Whether firewall-fleet carries as a fleet, each machine in its namespace a process that
# joins, what the lab's runner carries, and what coordinator and broker take. FLEET="-pairs 20
# -duration 30s" and the like; FLEET="-whole FOLDER" runs the experiment as it is, once.
bench-fleet-lab: build
	$(GO) run ./bench/fleet lab $(FLEET)
bench-link:
	$(GO) run ./bench/link
# What an idps costs that is off, and what a core inspects with the built-in
# rules; IDPS="--blocks 20" and the like change the first.
bench-idps:
	$(GO) run ./cmd/hopbench run bench/idps.yaml $(IDPS)
	$(GO) test ./internal/idps -run '^$$' -bench Inspect
# How fast the samples of a fleet get to the disk, and 30 clients of 64 flows over 1740 s
# onto a page; SAMPLES="-agents 300 -export" and the like change the first.
bench-samples:
	$(GO) run ./bench/samples $(SAMPLES)
	@mkdir -p build
	$(GO) run ./bench/samples -agents 30 -flows 64 -step 1s -seconds 1740 -page build/samples.html
# When a browser first shows a report, and how smoothly it scrolls that of a fleet.
bench-paint:
	$(GO) test ./internal/report -run '^$$' -bench 'FirstPaint|Scroll' -benchtime 10x -count 3
# How long the whole program and the slim one take to start.
bench-start: build agents
	$(GO) run ./bench/start ./hopbench ./hopbench-agent-$$($(GO) env GOOS)-$$($(GO) env GOARCH)
# Against every peer on PATH; PEERS="-only tcp -pairs 16" and the like narrow it,
# PEERS="-old PROGRAM" compares this version with an older one instead.
bench-peers: build
	$(GO) run ./bench/peers $(PEERS)

# Whether verdicts, intervals, causes and gates are right of what is planted, in about
# an hour on an idle machine: TRUTH="-short", "-part aa" and the like narrow it, -out
# FOLDER keeps the raw trials elsewhere. Nothing else should run meanwhile.
bench-truth:
	$(GO) run ./bench/truth -update docs/accuracy.md $(TRUTH)

# One server, with few processes, descriptors and little memory, against honest
# and bad clients for a long while. As root it has all its limits. SOAKFLAGS="-seed
# 2 -only FTP" and the like narrow it. Before that, FUZZSPEC of random specs.
SOAK ?= 10m
FUZZSPEC ?= 10m
.PHONY: soak
soak:
	$(GO) test ./internal/probe -run '^$$' -fuzz '^FuzzSpec$$' -fuzztime $(FUZZSPEC)
	$(GO) test ./test/soak -count=1 -v -timeout 0 -args -soak $(SOAK) $(SOAKFLAGS)

.PHONY: generate
generate:
	$(GO) generate ./...
