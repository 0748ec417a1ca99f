# The gate, as continuous integration runs it.
ci:
    .ci/run

# The demo: the main features on a scratch repository.
demo:
    cargo run --quiet -- demo

# The cost of a thousand live attempts and of 10 GB of log: the figures of
# docs/scale.md. Takes about ten minutes and 40 GB of disk.
scale:
    cargo build --release --bin provost --example bench
    target/release/examples/bench live 1000
    target/release/examples/bench flood 50 200

# The paths that have a budget, each beside its floor, and how figures grow: writes the table, the
# history and the curves of docs/performance.md.
bench:
    cargo build --release --bin provost --example bench
    target/release/examples/bench all --keep docs
    target/release/examples/bench curves docs/performance

# Time and allocations of the pure parts on the path of a log line and of a call.
bench-pure:
    cargo bench --bench pure

# The cost of a worktree with 20,000 ignored files beside a bare `git worktree add`: needs root, and
# mkfs.xfs or mkfs.btrfs.
bench-worktree:
    cargo build --release --bin provost --example bench
    target/release/examples/bench worktree 20000

test:
    cargo test --workspace

# Writes the generated parts of docs/ anew.
docs:
    UPDATE_DOCS=1 cargo test --lib -- held_out published_settings the_page_has
    UPDATE_DOCS=1 cargo test --test docs

# Accepts changed snapshots (tool schemas, help texts, entries).
snapshots:
    INSTA_UPDATE=always cargo test --workspace

# The official Python and TypeScript MCP clients against the real binary; needs
# Python 3 with venv, and Node.
clients:
    cargo build
    tests/clients/run target/debug/provost

# The page in headless Chromium, on real daemons; needs Node.js and Python 3, and
# installs Chromium if it is root. Screenshots are in target/browser/shots.
browser *PARTS:
    cargo build
    tests/browser/run target/debug/provost {{ PARTS }}

# The pictures in README, taken anew: docs/pictures. Needs what `browser` needs.
pictures:
    cargo build
    tests/browser/run target/debug/provost pictures

# How soon the pages are painted, with 1,000 attempts and 10,000 tasks.
browser-bench:
    cargo build --release
    tests/browser/run target/release/provost bench

# Licences, sources and duplicates of all crates, and their advisories where the
# advisory database can be reached; installs cargo-deny if it is missing.
deny:
    .ci/deny

# Kills daemon, shims and bridge again and again, and checks that nothing is lost.
crash-matrix *OPTIONS:
    cargo build --release --bin provost --example crash_matrix
    cargo run --quiet --release --example crash_matrix -- {{ OPTIONS }}

# Generated scripts of boxed agents, merged by Provost and beside it by plain git: the same trees.
histories N="1000":
    PROVOST_TEST_SEED=$(date +%s) PROVOST_TEST_HISTORIES={{ N }} cargo test --test it histories:: -- --nocapture

# The store on both engines; then hosts on one board on PostgreSQL, killed, cut off and halted one after
# the other, with a ledger that proves that nothing ran twice; then their rates. Installs PostgreSQL if it
# is missing.
cluster *OPTIONS:
    .ci/cluster {{ OPTIONS }}

# The rates alone, with 500 simulated hosts: the table of docs/cluster.md.
cluster-rates *OPTIONS:
    cargo build --release --bin provost --example cluster
    target/release/examples/cluster rates {{ OPTIONS }}

# The real coding-agent CLIs under Provost, without keys: the table of
# docs/executors.md. Installs them from the npm registry into target/real-executors.
real-executors *OPTIONS:
    cargo build --bin provost --example real_executors
    target/debug/examples/real_executors {{ OPTIONS }}

# A model server to try a CLI by hand: see tests/model-server/src/scenario.rs.
model-server PORT *LOG:
    cargo run --quiet --package model-server -- {{ PORT }} {{ LOG }}

# Calls every tool with right and wrong arguments from a seed, and checks the form of
# every answer.
fuzz-tools *OPTIONS:
    cargo build --release --bin provost --example fuzz_tools
    cargo run --quiet --release --example fuzz_tools -- {{ OPTIONS }}
