# The gate, as continuous integration runs it.
ci:
    .ci/run

# The main job on a scratch repository, end to end.
demo:
    cargo run --quiet -- demo

# What a thousand live attempts cost, and what 10 GB of log: the figures of
# docs/scale.md. Takes some ten minutes and 30 GB of disk.
scale:
    cargo build --release --bin provost --example scale
    target/release/examples/scale live 1000
    target/release/examples/scale flood 50 200

# How long the worker API takes in a project of 10,000 tasks and 5,000 sections.
bench:
    cargo bench --bench worker_api

test:
    cargo test --workspace

# Review and accept changed snapshots (tool schemas, help texts, entries).
snapshots:
    INSTA_UPDATE=always cargo test --workspace

# The official Python and TypeScript MCP clients against the real binary; needs
# Python 3 with venv, and Node.
clients:
    cargo build
    tests/clients/run target/debug/provost

# Licences, sources and duplicates of all crates, and their advisories where the
# advisory database can be reached; installs cargo-deny if it is missing.
deny:
    .ci/deny

# Daemon, shims and bridge are killed again and again: is anything lost?
crash-matrix *OPTIONS:
    cargo build --release --bin provost --example crash_matrix
    cargo run --quiet --release --example crash_matrix -- {{ OPTIONS }}

# The real coding-agent CLIs under Provost, without keys: the README's table of
# them. Installs them from the npm registry into target/real-executors.
real-executors *OPTIONS:
    cargo build --bin provost --example real_executors
    target/debug/examples/real_executors {{ OPTIONS }}

# A model server to try a CLI by hand: see tests/model-server/src/scenario.rs.
model-server PORT *LOG:
    cargo run --quiet --package model-server -- {{ PORT }} {{ LOG }}

# Every tool with right and wrong arguments from a seed: is each answer of its form?
fuzz-tools *OPTIONS:
    cargo build --release --bin provost --example fuzz_tools
    cargo run --quiet --release --example fuzz_tools -- {{ OPTIONS }}
