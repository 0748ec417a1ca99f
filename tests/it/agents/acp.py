"""An agent that speaks the Agent Client Protocol, scripted by its prompt.

One command a line: `say TEXT`, `edit PATH TEXT` (asks first), `full` (the next resume fails
for want of room), `forget` (the session). It keeps every line that it hears. Without a
line that says something it ends its turn and has asked no model.
"""

import json
import os
import sys

HEARD = os.path.join(os.environ["PROVOST_HOME"], "heard")


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def hear():
    line = sys.stdin.readline()
    if line:
        with open(HEARD, "a") as heard:
            heard.write(line)
    return json.loads(line) if line else None


def update(**fields):
    send(method="session/update", params={"sessionId": "s1", "update": fields})


def say(text):
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def edit(path, text):
    call = {"toolCallId": "c1", "title": "Write", "kind": "edit"}
    update(sessionUpdate="tool_call", status="pending", rawInput={}, **call)
    call["rawInput"] = {"path": path, "content": text}
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": "s1", "toolCall": call, "options": options}
    send(id=900, method="session/request_permission", params=params)
    say(hear()["result"]["outcome"]["outcome"])


def flag(name):
    return f"{HEARD}.{name}"


def resume(message):
    if os.path.exists(flag("full")):
        os.remove(flag("full"))
        error = {"code": -32603, "message": "Internal error", "data": {"details": "ENOSPC: no space left"}}
        send(id=message["id"], error=error)
    elif os.path.exists(flag("forget")):
        send(id=message["id"], error={"code": -32602, "message": "Session not found: s1"})
    else:
        send(id=message["id"], result={})


def prompt(message):
    text = message["params"]["prompt"][0]["text"]
    # What comes before is the past.
    for line in text.split("The prompt now:\n")[-1].splitlines():
        word, _, rest = line.partition(" ")
        if word == "say":
            say(rest)
        elif word == "edit":
            edit(*rest.split(" ", 1))
        elif word in ("full", "forget"):
            open(flag(word), "w").close()
    send(id=message["id"], result={"stopReason": "end_turn"})


while message := hear():
    method = message.get("method")
    if method == "initialize":
        capabilities = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
        send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": capabilities})
    elif method == "session/new":
        send(id=message["id"], result={"sessionId": "s1"})
    elif method == "session/resume":
        resume(message)
    elif method == "session/prompt":
        prompt(message)
