# A plan, eight tasks with dependencies, and three workers that claim them. The plan answers
# one question and a person another; one report is false, and a check exposes it.

of_the_plan="After how many seconds does a request time out?"
plan_says="A request times out after 5 seconds and is tried again at most twice."
of_a_person="Which typeface did the customer choose for the invoices?"
person_says="Garamond, as on their letters."

# Prints what the worker $1, attempt $2, has said since the last call.
show() {
    "$provost" logs "$2" | sed -n 's/^agent    //p' >"$root/log"
    tail -n "+$(($(cat "$root/$1") + 1))" "$root/log" | while IFS= read -r line; do
        printf '%-8s %s\n' "$1" "$line"
    done
    grep -c . "$root/log" >"$root/$1"
}

# Answers the open questions, as a person does.
answer() {
    inbox=$("$provost" inbox --json)
    for question in $(echo "$inbox" | texts handle); do
        [ "$(echo "$inbox" | field question)" = "$of_a_person" ] || fail "another open question"
        "$provost" answer "$question" "$person_says" --project demo >/dev/null || fail "no answer"
        printf '%-8s %s\n' person "$person_says"
        asked=$((asked + 1))
    done
}

# Whether the workers committed this text.
is_in_the_work() {
    git -C "$repo" grep --quiet --fixed-strings "$1" \
        $(git -C "$repo" for-each-ref --format='%(refname)' refs/heads/provost/) -- work/
}

chapter "1. A plan, and eight tasks with dependencies"
"$provost" plan add "$repo/docs" --name shop --version 1.0.0 --project demo >"$root/log"
prove "the plan shop is indexed" grep -q added "$root/log"
"$provost" task import "$root/board.json" --project demo || fail "the tasks were not imported"

chapter "2. Three workers claim them"
begin() {
    start "$2" worker "$3"
    prove "$1 started, attempt $(short "$id")" [ -n "$id" ]
    echo 0 >"$root/$1"
}
begin Ada TASK-001 "Do what is on the board." && ada=$id
begin Ben TASK-002 lie && ben=$id
begin Cyd TASK-003 "Do what is on the board." && cyd=$id
touch "$PROVOST_HOME/begin"
asked=0 alive=3
until [ "$alive" = 0 ]; do
    sleep 0.2
    alive=$("$provost" ps --json | texts phase | grep -vc settled)
    show Ada "$ada"
    show Ben "$ben"
    show Cyd "$cyd"
    answer
done

chapter "3. The board at the end"
"$provost" task list --project demo
board=$("$provost" task list --project demo --json | texts status)
[ "$(lines "$board")" -ge 16 ] || fail "not each task had one that verifies it"
prove "every task is done: the eight, and those that verified them" \
    [ -z "$(echo "$board" | grep -v done)" ]
receipts=
for task in 1 2 3 4 5 6 7 8; do
    outcomes=$("$provost" checks "TASK-00$task" --project demo --json | texts outcome)
    [ -n "$outcomes" ] || fail "TASK-00$task has no receipt"
    receipts="$receipts$outcomes
"
done
prove "each of the eight has the receipt of a check that passed" \
    [ -z "$(printf %s "$receipts" | grep -v passed)" ]
lie=$("$provost" call tail_session_messages "{\"attempt_id\": \"$ben\", \"limit\": 100}" |
    grep -o '[^"\\]*eport says[^"\\]*' | head -n 1 | sed 's/^n//')
prove "one report was false, and the check exposed it: $lie" [ -n "$lie" ]
prove "the plan answered: $of_the_plan" is_in_the_work "$plan_says"
prove "a person answered: $of_a_person" [ "$asked" = 1 ]
prove "both answers are in the work" is_in_the_work "$person_says"

cat >"$root/summary" <<JSON
{"ok":true,"tasks":8,"board":$(lines "$board"),"receipts":$(lines "$receipts"),
"asked_of_a_person":$asked,"lie":"$lie"}
JSON
