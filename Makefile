# make            build ./hopbench
# make test       the tests, in five minutes; uses iperf3, ip, tc, ping, … where they are
# make test-…     those that take longer, see docs/testing.md: browser, simulations,
#                 wine, kill, reach, soak, vm
# make check      formatting, vet, staticcheck, cross-builds
# make fuzz       fuzz every parser of outside bytes for a while (FUZZTIME=30s)
# make bench-…    measurements; docs/benchmarks.md keeps their results
# make soak       honest and bad clients at one server with little to spend (SOAK=10m)

GO ?= go
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME ?= 30s
export CGO_ENABLED ?= 0

# What has to build and vet where: the portable part is everything, since what
# needs Linux has honest stubs elsewhere.
PLATFORMS = linux/amd64 linux/arm64 windows/amd64 darwin/arm64

# Without DWARF, which only debuggers read: 8 MB less. Symbols stay, so profiles and
# the traces of a crash have their names.
.PHONY: build
build:
	$(GO) build -trimpath -ldflags=-w -o hopbench ./cmd/hopbench

.PHONY: test
test:
	@test/run

# What takes longer than `make test` may. Each of them needs little more than its
# own program, so that they can be tried one by one.
.PHONY: test-browser test-simulations test-wine test-kill test-reach test-soak
test-browser:
	@test/run -run '^TestBrowser' ./internal/report/...
test-simulations:
	@HOPBENCH_TEST_LONG=1 test/run ./internal/analysis
test-wine:
	@test/run ./test/wine
test-kill:
	@HOPBENCH_TEST_LONG=1 test/run -run '^(TestKilled|TestCancelled|TestPeerVanishes|TestServersOfWrongFrames|TestGatesCatch)' \
		./internal/lab ./internal/store ./internal/probe ./internal/testbed/labtest ./internal/testbed/switching
test-reach:
	@HOPBENCH_TEST_LONG=1 test/run -run '^(TestCoordinator|TestSSH)' ./internal/reach
test-soak:
	@test/run ./test/soak

# Needs Debian, qemu-system-x86, kmod and what apt knows of the kernel; no root
# and no KVM. VM="-run TestVXLAN -console" and the like narrow it.
.PHONY: test-vm
test-vm:
	$(GO) run ./test/vm $(VM)

# The race detector needs cgo. Packages that build namespaces re-execute
# themselves and are left to `make test`.
.PHONY: race
race:
	CGO_ENABLED=1 $(GO) test -race -skip '^TestBrowser' -count=1 $$(test/packages-without-lab)

.PHONY: check
check: check-format check-vet check-static check-cross

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

.PHONY: check-cross
check-cross:
	@for p in $(PLATFORMS); do \
		echo "build $$p"; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./cmd/hopbench || exit 1; \
	done

.PHONY: fuzz
fuzz:
	@test/fuzz $(FUZZTIME)

# Speed and accuracy. Each prints a table and takes a few minutes at most.
.PHONY: bench bench-aa bench-hosts bench-lab bench-link bench-idps bench-peers bench-truth
bench: bench-lab bench-link bench-idps bench-peers bench-aa
# The noise floor: a path against itself. It should not say "costs".
bench-aa:
	$(GO) run ./cmd/hopbench run aa-null
# The same namespaces measured by a lab's agents, by one over TLS and by one that ssh
# starts: no way should cost anything. HOSTS="-blocks 40 -out FOLDER" and the like.
bench-hosts: build
	$(GO) run ./bench/hosts $(HOSTS)
bench-lab:
	$(GO) run ./bench/lab
bench-link:
	$(GO) run ./bench/link
# What an idps costs that is off, and what a core inspects with the built-in
# rules; IDPS="--blocks 20" and the like change the first.
bench-idps:
	$(GO) run ./cmd/hopbench run bench/idps.yaml $(IDPS)
	$(GO) test ./internal/idps -run '^$$' -bench Inspect
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
