# A worker of the demo: claims tasks over the worker API, writes a file for each, asks its
# questions, and reports. Its prompt is on standard input: "lie" makes it report a test of its
# first file that it has not run. $1 is the program `provost`.

prompt=$(cat)
provost=$1

# Calls a tool, and repeats the call while the rate limit refuses it.
call() {
    until answer=$("$provost" call "$1" "$2" 2>&1); do
        case $answer in *RATE_LIMIT*) sleep 1 ;; *) echo "$answer"; exit 1 ;; esac
    done
}

# The first string of this name in the answer.
field() { printf %s "$answer" | grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }

# Asks the plan, and then a person.
find_out() {
    echo "asks: $1"
    call askQuestion "{\"question\": \"$1\", \"currentTaskId\": \"$id\"}"
    case $answer in
        *'"confidence":0.'[789]* | *'"confidence":1'*)
            found=$(field exactQuote)
            echo "the plan says, under $(field section): $found"
            ;;
        *)
            echo "the plan does not say; waiting for a person"
            call getImmediateAnswer "{\"query\": \"$1\", \"max_wait_seconds\": 120}"
            found=$(field answer)
            echo "the answer: $found"
            ;;
    esac
}

work() {
    title=$(field title)
    file=$(printf %s "$answer" | grep -o 'work/[a-z]*\.txt' | head -n 1)
    question=$(printf %s "$answer" | grep -o 'Find out: [^"]*' | cut -d ' ' -f 3-)
    echo "$id $title"
    found=
    [ -z "$question" ] || find_out "$question"
    tested=tested
    if [ "$prompt" = lie ]; then tested=; prompt=; fi
    mkdir -p work
    printf '%s\n' "$title" "$found" "$tested" >"$file"
    git add . && git commit --quiet --allow-empty --message "$title" || exit 1
    call reportTaskDone "{\"taskId\": \"$id\", \"status\": \"done\",
        \"implementationNotes\": \"$title: written down\", \"filesModified\": [\"$file\"],
        \"testing\": {\"testsAdded\": false, \"testsPassed\": true, \"testsFailed\": 0},
        \"acceptanceCriteriaVerification\":
            {\"0\": {\"text\": \"$file is there and was tested\", \"status\": \"passed\"}}}"
    echo "$id $(field message)"
}

verify() {
    original=$(printf %s "$answer" | grep -o '"dependencies":\["[^"]*' | cut -d '"' -f 4)
    call reportVerificationResult "{\"verificationTaskId\": \"$id\",
        \"originalTaskId\": \"$original\", \"verificationStatus\": \"passed\",
        \"verification\": {\"summary\": \"as specified\", \"checklist\":
            [{\"item\": \"its file is there and was tested\", \"status\": \"passed\"}]},
        \"originalTaskStatus\": \"done\"}"
    echo "$id $original is as specified"
}

# All workers begin at once, each with the task that it was started for.
until [ -e "$PROVOST_HOME/begin" ]; do sleep 0.05; done
while :; do
    call getNextTask '{"claim": true}'
    id=$(field taskId)
    case $id in
        TASK-VERIFY*) verify ;;
        TASK-*) work ;;
        *)
            call getNextTask '{"filter": "all"}'
            case $answer in *'"queueLength":0'*) break ;; esac
            sleep 0.3
            ;;
    esac
done
echo "nothing is left to do"
