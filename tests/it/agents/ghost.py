"""ghost.py MODE SOCKET [MARK] < requests > answers

Speaks to a Unix socket that it has connected itself ("alive"), or that a child of
its own has connected that has ended since ("gone"): it makes the file MARK then.
It waits for as many lines as it has sent.
"""
import os
import socket
import sys

mode, path, *mark = sys.argv[1:]
talk = socket.socket(socket.AF_UNIX)
if mode == "gone":
    child = os.fork()
    if child == 0:
        talk.connect(path)
        os._exit(0)
    os.waitpid(child, 0)
    for file in mark:
        open(file, "w").close()
else:
    talk.connect(path)
requests = sys.stdin.buffer.read()
talk.sendall(requests)
# A call ends with its connection, so the answers come first.
answers = talk.makefile("rb")
for _ in range(requests.count(b"\n")):
    sys.stdout.buffer.write(answers.readline())
