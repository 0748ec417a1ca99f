# What the demo's stories share. $provost is the program, $root the scratch folder, in which
# they leave a failure, or a summary in JSON.

set -u
repo=$root/repo

say() { printf '%s\n' "$*"; }
chapter() { printf '\n%s%s%s\n\n' "$bold" "$1" "$plain"; }
fail() { printf '%s\n' "$1" >"$root/failure"; exit 1; }

# prove FACT COMMAND...: prints the fact if the command succeeds.
prove() {
    fact=$1
    shift
    "$@" || fail "this does not hold: $fact"
    printf '%s✓%s        %s\n' "$green" "$plain" "$fact"
}

# The first value, or all texts, of this name in the JSON on standard input.
field() { grep -o "\"$1\":\"\{0,1\}[^\",}]*" | head -n 1 | cut -d : -f 2- | tr -d '"'; }
texts() { grep -o "\"$1\":\"[^\"]*" | cut -d '"' -f 4; }

short() { printf %s "$1" | tail -c 8; }
lines() { printf %s "$1" | grep -c .; }

# start TASK EXECUTOR PROMPT: sets id, branch and worktree.
start() {
    started=$("$provost" task start "$1" --project demo --executor "$2" --prompt "$3" --json) ||
        fail "the attempt did not start"
    id=$(echo "$started" | field attempt_id)
    branch=$(echo "$started" | field workspace_branch)
    worktree=$(echo "$started" | field worktree)
}

"$provost" init "$repo" --name demo >"$root/log" || fail "the repository was not registered"
