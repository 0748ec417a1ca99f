"""ghost.py MODE SOCKET < requests > answers

Speaks to a Unix socket that it has connected itself ("alive"), or that a child of
its own has connected that has ended since ("gone").
"""
import os
import socket
import sys

mode, path = sys.argv[1:]
talk = socket.socket(socket.AF_UNIX)
if mode == "gone":
    child = os.fork()
    if child == 0:
        talk.connect(path)
        os._exit(0)
    os.waitpid(child, 0)
else:
    talk.connect(path)
talk.sendall(sys.stdin.buffer.read())
talk.shutdown(socket.SHUT_WR)
while chunk := talk.recv(65536):
    sys.stdout.buffer.write(chunk)
