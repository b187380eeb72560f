# The two commands of the README, and further ones for developers.

.DELETE_ON_ERROR:
# What `make test` runs: parts of the Rust tests, and folders of tests/. What `make test-all` adds.
rust_suites = api planner lib
suites = conformance clients policy import guides
more_suites = keystone moving rehearsal server_audit compare shadow deploy console openapi site

.PHONY: run cloud demo docs check lint deny bench bench-core bench-plans differential chaos ha incidents matrix sqlx samples pictures install-run install-test help
.PHONY: test test-all compile-tests test-rust $(rust_suites:%=test-%) test-chaos $(suites:%=test-%) $(more_suites:%=test-%) debug

help:
	@echo "make run    build Berth and serve on 127.0.0.1:8778 with a private PostgreSQL"
	@echo "make cloud  fill the running server with the 40 hosts of the README"
	@echo "make demo   start a temporary Berth with 2,000 hosts and traffic, to look at in a browser"
	@echo "make docs   build the documentation as a site with search, in target/site"
	@echo "make check  the short loop of a developer: format, clippy, the library's tests"
	@echo "make test   run the tests of each change: Rust, the reference's functional suite, clients, policy, import"
	@echo "make test-all  run these and the long suites: $(more_suites) chaos"
	@echo "make test-rust, test-conformance, ...  run one suite"
	@echo "make lint   format, clippy, rustdoc and deny, as CI checks them"
	@echo "make deny   check the dependencies: licences, sources, known vulnerabilities"
	@echo "make bench  measure Berth beside the reference; takes about half an hour (ARGS=--help)"
	@echo "make bench-core  measure search, rendering, judging and applying changes, in process"
	@echo "make bench-plans  compare plans with those of CP-SAT and of a greedy; takes about ten minutes"
	@echo "make differential  send 100,000 random requests to Berth and to the reference; goes on where it ended"
	@echo "make chaos  three replicas while their databases fail; checks every answer (ARGS=--help)"
	@echo "make ha     what clients see while a database under Patroni fails over (ARGS=--help)"
	@echo "make incidents  check that alerts and berth check name what goes wrong (ARGS=--help)"
	@echo "make matrix  run the tests that need a database on PostgreSQL 13 to 18 (ARGS=\"13 18\")"
	@echo "make pictures  render the diagrams and the recording of docs/pictures again"
	@echo "make sqlx   record the queries of src/store again after changing one"

# ARGS are handed to `berth serve`.
run: install-run
	@[ -e target/quick/berth ] || echo "Building Berth: about 6 minutes of CPU time the first time. Later builds compile only what changed."
	cargo build --profile quick --locked
	@tools/next-steps $$$$ $(ARGS) & exec target/quick/berth serve --ui $(ARGS)

# ARGS: the URL, if it is another one.
cloud:
	@samples/cloud.sh $(ARGS)

# Needs Python 3. ARGS="--port 9000", or --help.
demo: install-run
	cargo build --profile quick --locked
	@tools/demo $(ARGS)

# Enough to see whether a change holds together; it needs no other program than cargo.
check:
	@tools/rust
	cargo fmt --check
	cargo clippy --locked -- -D warnings
	cargo test --locked --lib --test tidy --test docs

# Suites mostly wait for databases and servers, so three at a time keep two cores busy. Everything is compiled once
# before. Suites run the program that `cargo test` builds: `cargo build` would compile it again, because without the
# dev-dependencies some dependencies have fewer features.
built_for_tests = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug/berth

test: compile-tests
	BERTH_BIN=$(built_for_tests) tests/side-by-side $(rust_suites) $(suites)

test-all: compile-tests
	BERTH_BIN=$(built_for_tests) tests/side-by-side $(rust_suites) $(suites) $(more_suites) chaos

compile-tests: install-test
	cargo test --locked --no-run

test-rust: install-test
	cargo test --locked

test-lib: install-test
	cargo test --locked --lib --test rules --test tidy --test docs --test tools --test version

# These tests mostly wait for servers and databases.
test-api test-planner: test-%: install-test
	cargo test --locked --test $* -- --test-threads=$(shell expr 2 \* $$(nproc))

$(suites:%=test-%) $(more_suites:%=test-%): test-%: debug
	tests/$*/run

test-chaos: debug
	tests/chaos/run --small

# The program that the suites run, unless BERTH_BIN names another one.
debug: install-test
	[ -n "$(BERTH_BIN)" ] || cargo build --locked

lint: install-run deny
	cargo fmt --check
	cargo fmt --check --manifest-path bench/load/Cargo.toml
	cargo clippy --all-targets --locked -- -D warnings
	cargo clippy --locked --manifest-path bench/load/Cargo.toml --target-dir target -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --document-private-items --locked

deny: install-run
	tools/deny

bench: install-test
	@tools/install wrk
	cargo build --release --locked
	cargo build --release --locked --manifest-path bench/load/Cargo.toml --target-dir target
	bench/run $(ARGS)

# ARGS are handed to criterion, such as ARGS="search".
bench-core: install-run
	cargo bench --locked --bench speed -- $(ARGS)

bench-plans: install-test
	cargo build --release --locked
	bench/plans/run $(ARGS)

# A run that was ended goes on with the next round; `make differential ARGS="--seed 2"` makes other
# requests. Rounds that are done stand in target/differential/rounds.json.
differential: install-test
	cargo build --locked
	tests/differential/run --until 100000 --remember target/differential/rounds.json $(ARGS)

# Three minutes, each fault about once; `make chaos ARGS="--seconds 600 --seed 7"` goes on for ten.
chaos: install-test
	cargo build --locked
	tests/chaos/run $(ARGS)

# It needs etcd-server and haproxy.
ha: install-test
	cargo build --locked
	tests/ha/run $(ARGS)

incidents: install-test
	cargo build --locked
	tests/incidents/run $(ARGS)
	tests/incidents/causes
	tests/incidents/clocks

# ARGS are major versions.
matrix: install-test
	tools/postgres-matrix $(ARGS)

sqlx: install-run
	tools/sqlx

# Everything that is generated from the code.
samples:
	cargo run --locked -- config sample > samples/berth.toml
	cargo run --locked -- policy sample > samples/policy.yaml

# The pictures of docs/architecture.md, from the text beside them.
pictures: install-run
	@tools/install graphviz
	[ -n "$(BERTH_BIN)" ] || cargo build --profile quick --locked
	tools/recording
	for picture in docs/pictures/*.dot; do dot -Tsvg "$$picture" -o "$${picture%.dot}.svg" || exit 1; done

# The documentation as a site.
docs: install-run
	@tools/rust
	tools/docs

install-run:
	@tools/rust
	@tools/install postgresql cc

install-test:
	@tools/rust
	@tools/install postgresql cc curl python haproxy nginx mariadb promtool
