# The main job in four chapters: an agent works, continues its session, is stopped with all
# its processes, and survives the daemon.

work="think A greeting belongs into a file of its own.
write hello.txt Hello, world!
run git add hello.txt && git commit --quiet --message='Greet the world' && git log --oneline
say The greeting is in hello.txt, and committed."

# It ends once the last prompt is queued.
next="say A politer greeting, then.
run sh wait-for queued"
last="write hello.txt Good day, world!
say Done. It is not committed."

stubborn="ignore-term
fork
say I ignore SIGINT and SIGTERM, and I left a process in a session of its own.
hang"

survivor="say one: there is a daemon
run sh wait-for daemon-killed
say two: there is none, and I keep working
write meanwhile.txt written without a daemon
run sh wait-for daemon-back
say three: there is a new one"

begin() {
    start "$("$provost" task add "$1" --project demo)" fake "$2"
    shown=-1
    prove "attempt $(short "$id") started, executor fake" [ -n "$id" ]
}

# Prints the entries since the last call. The agent waits, or has ended.
news() {
    latest=$("$provost" status "$id" --json | field normalized)
    [ "$latest" -le "$shown" ] || "$provost" logs "$id" --limit $((latest - shown))
    shown=$latest
}

# Prints the log once a message of the agent begins so.
until_said() {
    until "$provost" logs "$id" | grep -q "^agent    $1"; do sleep 0.1; done
    sleep 0.2
    news
}

until_completed() {
    "$provost" wait "$id" >"$root/log" || fail "the attempt did not complete: $(cat "$root/log")"
    news
}

# The living processes of the attempt; the agent itself.
processes() {
    for process in /proc/[0-9]*; do
        tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -qx "PROVOST_ATTEMPT_ID=$id" &&
            echo "${process#/proc/}"
    done
}
agent() { for process in $(processes); do grep -qs __fake "/proc/$process/cmdline" && echo "$process"; done; }
is_dead() { ! grep -q '^State:.[^ZX]' "/proc/$1/status" 2>/dev/null; }
daemon() { cat "$PROVOST_HOME/run/daemon.lock"; }

chapter "1. An agent works on its own branch, in its own worktree"
base=$(git -C "$repo" rev-parse main)
begin "Greet the world" "$work"
until_completed
# A look at the changes takes over what was committed.
changed=$("$provost" diff "$id" --json | texts path)
commits=$(git -C "$repo" log --oneline --no-color "main..$branch")
prove "on the branch $branch: $commits" [ "$(lines "$commits")" = 1 ]
prove "what it changed: $changed" [ "$changed" = repo/hello.txt ]
prove "the branch main is unchanged" [ "$(git -C "$repo" rev-parse main)" = "$base" ]
worked="{\"attempt_id\":\"$id\",\"branch\":\"$branch\",\"commit\":\"$commits\"}"

chapter "2. It gets its next prompts in the same session"
"$provost" send "$id" "$next" >/dev/null || fail "the prompt was not sent"
until_said "A politer"
queued=$("$provost" queue "$id" "$last" --json | field length)
prove "while it runs, one more prompt is queued" [ "$queued" = 1 ]
touch "$PROVOST_HOME/queued"
until_completed
prompts=$("$provost" call tail_session_messages "{\"attempt_id\": \"$id\"}" |
    grep -o '"role":"user","text":"[^ ]* [^ ]* [^ ]*' | cut -d '"' -f 8)
prove "the session has three prompts, in order" [ "$prompts" = "think A greeting
say A politer
write hello.txt Good" ]
"$provost" diff "$id" >"$root/patch"
prove "the patch of all changes, committed or not, applies to main" \
    git -C "$repo" apply --check "$root/patch"
patch=$("$provost" diff "$id" repo/hello.txt --json | sed 's/^{\("patch":".*"\),"files":.*/\1/')
went_on="{\"turns\":$(lines "$prompts"),$patch}"

chapter "3. A stubborn agent is stopped, with all its processes"
begin "Never stop" "$stubborn"
until_said "I ignore"
alive=$(processes)
prove "its processes: $(echo $alive)" [ "$(lines "$alive")" = 2 ]
signals=$("$provost" stop "$id" --json | grep -o '"signals":\[[^]]*' | cut -d '[' -f 2)
prove "stopped, after $signals" [ "$signals" = '"SIGINT","SIGTERM","SIGKILL"' ]
prove "none of its processes is alive" [ -z "$(processes)" ]
stopped="{\"attempt_id\":\"$id\",\"signals\":[$signals],\"processes\":$(lines "$alive")}"

chapter "4. The daemon is killed, and the agent keeps running"
begin "Survive the daemon" "$survivor"
until_said one:
agent=$(agent) first=$(daemon)
kill -9 "$first"
until is_dead "$first"; do sleep 0.05; done
prove "the daemon, pid $first, is killed with SIGKILL" is_dead "$first"
touch "$PROVOST_HOME/daemon-killed"
until [ -e "$worktree/meanwhile.txt" ]; do sleep 0.05; done
prove "the agent, pid $agent, keeps working without a daemon" [ "$(agent)" = "$agent" ]
until_said two:
second=$(daemon)
[ "$first" != "$second" ] || fail "there is no new daemon"
prove "a new daemon, pid $second, has adopted it" [ "$(agent)" = "$agent" ]
touch "$PROVOST_HOME/daemon-back"
until_completed
said=$("$provost" logs "$id" | sed -n 's/^agent    \([a-z]*\):.*/\1/p')
exit_code=$("$provost" status "$id" --json | field exit_code)
prove "the log has each of its messages once, and its exit code is known" \
    [ "$(echo $said) $exit_code" = "one two three 0" ]
survived="{\"attempt_id\":\"$id\",\"agent_pid\":$agent,\"daemon_pids\":[$first,$second]}"

cat >"$root/summary" <<JSON
{"ok":true,"worked":$worked,"went_on":$went_on,"stopped":$stopped,"survived":$survived}
JSON
