"""An agent that speaks the Agent Client Protocol, scripted by its prompt.

One command a line: `say TEXT`, `edit PATH TEXT` (asks first), `full` (the next resume fails
for want of room), `forget` (the session), `choose QUESTION` (red or blue, each an option of a request), `type QUESTION` (an
answer beside the option), `background FILE` (begins work that ends once the file is there, answers the prompt, and goes on
with the next line then). It keeps every line that it hears. Without a
line that says something it ends its turn and has asked no model.
"""

import json
import os
import sys
import time

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


def ask(question, options, meta):
    call = {"toolCallId": "q1", "title": "AskUserQuestion", "kind": "other", "_meta": meta}
    labels = [{"label": "red"}, {"label": "blue"}]
    call["rawInput"] = {"questions": [{"question": question, "options": labels}]}
    options = [dict(zip(("optionId", "name", "kind"), option)) for option in options]
    params = {"sessionId": "s1", "toolCall": call, "options": options}
    send(id=901, method="session/request_permission", params=params)
    result = hear()["result"]
    answers = result.get("answers", {}).get("0")
    say(f"heard {result['outcome'].get('optionId')} {answers}")


def background(message, path):
    call = {"toolCallId": "b1", "title": "Shell", "kind": "execute"}
    update(sessionUpdate="tool_call", status="pending", rawInput={"command": "x"}, **call)
    told = "Background shell started.\nid: bg_1\nstatus file: /x\n"
    content = [{"type": "content", "content": {"type": "text", "text": told}}]
    update(sessionUpdate="tool_call_update", toolCallId="b1", status="completed", content=content)
    say("it runs in the background")
    send(id=message["id"], result={"stopReason": "end_turn"})
    while not os.path.exists(path):
        time.sleep(0.01)
    text = {"type": "text", "text": "Background shell completed."}
    task = {"taskId": "bg_1", "status": "completed"}
    meta = {"source": "background_task_completed", "backgroundTask": task}
    update(sessionUpdate="agent_message_chunk", content=text, _meta=meta)
    send(id=902, method="_qwencode/start_turn", params={"sessionId": "s1"})
    say("admitted" if hear()["result"]["accepted"] else "refused")


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
    goes_on = False
    # What comes before is the past.
    for line in text.split("The prompt now:\n")[-1].splitlines():
        word, _, rest = line.partition(" ")
        if word == "say":
            say(rest)
        elif word == "edit":
            edit(*rest.split(" ", 1))
        elif word == "choose":
            named = [("red", "red", "allow_once"), ("blue", "blue", "allow_once")]
            ask(rest, [*named, ("no", "Cancel", "reject_once")], {})
        elif word == "type":
            submit = [("ok", "Submit", "allow_once"), ("no", "Cancel", "reject_once")]
            ask(rest, submit, {"qwenInteractionKind": "user_question"})
        elif word == "background":
            background(message, rest)
            goes_on = True
        elif word in ("full", "forget"):
            open(flag(word), "w").close()
    if goes_on:
        params = {"sessionId": "s1", "reason": "end_turn", "source": "background_notification"}
        send(method="_qwencode/end_turn", params=params)
    else:
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
