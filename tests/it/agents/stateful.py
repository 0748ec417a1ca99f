"""An agent that speaks the Agent Client Protocol and keeps a state of its own, where AGENT_HOME or
the home says: settings, credentials, and sessions below the name of the working folder.

One command a line: `run COMMAND`, `say TEXT`, `recall` (says every prompt of the session). With
`--resume ID` it is the person's own interface: it says the same to the terminal.
"""

import json
import os
import re
import subprocess
import sys
import uuid

STATE = os.environ.get("AGENT_HOME") or os.path.expanduser("~/.agent")


def file_of(session):
    cwd = re.sub("[^a-zA-Z0-9]", "-", os.getcwd())
    return os.path.join(STATE, "sessions", cwd, f"{session}.jsonl")


def past(session):
    with open(file_of(session)) as file:
        return [json.loads(line) for line in file]


def remember(session, prompts):
    path = file_of(session)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a") as file:
        file.writelines(json.dumps(prompt) + "\n" for prompt in prompts)


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def say(session, text):
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    send(method="session/update", params={"sessionId": session, "update": update})


def prompt(message):
    session, text = message["params"]["sessionId"], message["params"]["prompt"][0]["text"]
    before = past(session) if os.path.exists(file_of(session)) else []
    remember(session, [text])
    # What comes before is the past.
    for line in text.split("The prompt now:\n")[-1].splitlines():
        word, _, rest = line.partition(" ")
        if word == "run":
            ran = subprocess.run(["sh", "-c", rest], capture_output=True, text=True)
            say(session, f"[{ran.returncode}] {ran.stdout}{ran.stderr}\n")
        elif word == "say":
            say(session, rest)
        elif word == "recall":
            known = " / ".join(before).replace("\n", " ")
            say(session, f"I know: {known or 'nothing'}\n")
    send(id=message["id"], result={"stopReason": "end_turn"})


def enter(message):
    """Begins, resumes or forks a session."""
    method, params = message["method"], message["params"]
    new = str(uuid.uuid4())
    if method != "session/new":
        if not os.path.exists(file_of(params["sessionId"])):
            error = {"code": -32602, "message": "Session not found"}
            return send(id=message["id"], error=error)
        if method == "session/fork":
            remember(new, past(params["sessionId"]))
    send(id=message["id"], result={"sessionId": new} if method != "session/resume" else {})


if "--resume" in sys.argv:
    session = sys.argv[sys.argv.index("--resume") + 1]
    print("on a terminal" if sys.stdin.isatty() else "on no terminal")
    print("I know: " + " / ".join(past(session)).replace("\n", " "))
    key = os.path.expanduser("~/.ssh/id")
    try:
        print("key: " + open(key).read())
    except OSError as error:
        print(f"no key: {error.strerror}")
    remember(session, ["by hand"])
    sys.exit(7)

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        capabilities = {"sessionCapabilities": {"resume": {}, "fork": {}}}
        send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": capabilities})
    elif method in ("session/new", "session/resume", "session/fork"):
        enter(message)
    elif method == "session/prompt":
        prompt(message)
