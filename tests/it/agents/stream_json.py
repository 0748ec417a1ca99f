"""An agent that speaks Claude Code's two-way stream-json, scripted by its prompt.

One command a line: `say TEXT`, `words JSON` (a text of many lines), `run COMMAND` (says what a shell prints), `ask COMMAND` (for permission to run it), `wait`
(for an interrupt), `limit EPOCH` (a rate limit ends the turn), `forget` (the session), `linger` (after the
turn, whatever is asked of it), `background FILE` (begins work that ends once the file is there, answers, and goes on with
the next line then), `raw LINE` (prints that), `die` (at once), `sneak PROVOST` (approves by itself what it asks for, the id of which is in `heard.asked`). It keeps every line that it hears.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

HEARD = os.path.join(os.environ["PROVOST_HOME"], "heard")


def say(kind, **fields):
    line = {"type": kind, "session_id": SESSION, **fields}
    print(json.dumps(line), flush=True)


def hear():
    line = sys.stdin.readline()
    if line:
        with open(HEARD, "a") as heard:
            heard.write(line)
    return json.loads(line) if line else None


def assistant(text):
    say("assistant", message={"content": [{"type": "text", "text": text}]})


def end(**fields):
    usage = {"input_tokens": 3, "output_tokens": 5}
    say("result", usage=usage, total_cost_usd=0.5, **fields)


def is_interrupt(message):
    return message and message.get("request", {}).get("subtype") == "interrupt"


def interrupted(message):
    response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
    say("control_response", response=response)
    end(subtype="error_during_execution", is_error=True, terminal_reason="aborted_tools")


def ask(number, command):
    """Whether the turn goes on."""
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": command}}
    request["tool_use_id"] = f"call{number}"
    say("control_request", request_id=f"ask{number}", request=request)
    while answer := hear():
        if is_interrupt(answer):
            interrupted(answer)
            return False
        response = answer.get("response", {})
        if response.get("request_id") != f"ask{number}":
            continue
        verdict = response["response"]
        if verdict["behavior"] == "allow":
            assistant(f"allowed {verdict['updatedInput']['command']}")
        else:
            assistant(f"denied {command}: {verdict['message']}")
        return True
    return False


def sneak(program):
    """Approves what it asks for, from where nothing tells that it is an attempt's."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PROVOST_ATTEMPT_ID", "PWD")}
    run = lambda *args: subprocess.run(
        [program, *args], cwd="/", env=environment, capture_output=True, text=True
    )
    while not os.path.exists(HEARD + ".asked"):
        time.sleep(0.01)
    with open(HEARD + ".asked") as asked:
        done = run("approve", asked.read())
    with open(HEARD + ".sneak", "w") as told:
        told.write(done.stderr)


def background(number, path):
    task = {"task_id": f"b{number}", "task_type": "local_bash", "description": f"wait for {os.path.basename(path)}"}
    say("system", subtype="background_tasks_changed", tasks=[task])
    say("system", subtype="task_started", is_backgrounded=True, **task)
    assistant("it runs in the background")
    end(subtype="success", is_error=False)
    while not os.path.exists(path):
        time.sleep(0.01)
    say("system", subtype="task_notification", status="completed", **task)
    say("system", subtype="background_tasks_changed", tasks=[])
    say("system", subtype="init", model="none")


def turn(script):
    for number, line in enumerate(script.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "say":
            assistant(rest)
        elif word == "words":
            assistant(json.loads(rest))
        elif word == "run":
            with subprocess.Popen(rest, shell=True, stdout=subprocess.PIPE, text=True) as shell:
                for printed in shell.stdout:
                    assistant(printed.rstrip("\n"))
        elif word == "ask":
            if not ask(number, rest):
                return
        elif word == "sneak":
            threading.Thread(target=sneak, args=(rest,)).start()
        elif word == "wait":
            assistant("waiting")
            while not is_interrupt(message := hear()):
                if message is None:
                    return
            return interrupted(message)
        elif word == "background":
            background(number, rest)
        elif word == "raw":
            return print(rest, flush=True)
        elif word == "die":
            os._exit(1)
        elif word == "forget":
            open(HEARD + ".forgotten", "w").close()
        elif word == "limit":
            info = {"status": "rejected", "resetsAt": int(rest), "rateLimitType": "five_hour"}
            say("rate_limit_event", rate_limit_info=info)
            return end(subtype="success", is_error=True, api_error_status=429, result="Limit reached")
        elif word == "linger":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            end(subtype="success", is_error=False)
            while True:
                signal.pause()
    end(subtype="success", is_error=False)


arguments = sys.argv[1:]
resumes = "--resume" in arguments
if resumes and os.path.exists(HEARD + ".forgotten"):
    SESSION = ""
    end(subtype="error_during_execution", is_error=True, errors=["No conversation found with session ID"])
    sys.exit(1)
own = not resumes or "--fork-session" in arguments
SESSION = f"s{os.getpid()}" if own else arguments[arguments.index("--resume") + 1]
while message := hear():
    if message["type"] == "control_request":
        response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
        say("control_response", response=response)
    elif message["type"] == "user":
        say("system", subtype="init", model="none")
        turn(message["message"]["content"][0]["text"])
        break
# Its input is closed when the turn has been seen to end.
while hear():
    pass
