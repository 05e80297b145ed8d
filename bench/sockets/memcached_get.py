"""Client of memcached that gets one value of 1 KiB over a port or a Unix socket, and prints the GETs per second."""

import socket
import sys
import time

VALUE = b"v" * 1024
where, rounds = sys.argv[1], int(sys.argv[2])
if where.isdigit():
    server = socket.create_connection(("127.0.0.1", int(where)))
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
else:
    server = socket.socket(socket.AF_UNIX)
    server.connect(where)
server.sendall(b"set key 0 0 1024\r\n" + VALUE + b"\r\n")
assert server.recv(100) == b"STORED\r\n"
answer = len(b"VALUE key 0 1024\r\n") + 1024 + len(b"\r\nEND\r\n")
begin = time.perf_counter()
for _ in range(rounds):
    server.sendall(b"get key\r\n")
    left = answer
    while left:
        left -= len(server.recv(left))
print(rounds / (time.perf_counter() - begin))
