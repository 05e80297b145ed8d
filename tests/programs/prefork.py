"""A prefork server and its clients on a Unix socket: prefork.py MIB. Prints the answers that the clients get."""

import hashlib
import os
import signal
import socket
import struct
import sys
import tempfile
import threading

WORKERS = 4
CLIENTS = 4
REQUESTS = 150
PAGE = 4096
ASKED = struct.Struct("!II")


def serve(listener, data):
    """Answers each request with a hash of some pages of the data. The worker changes these pages, then restores them."""
    while True:
        connection, _ = listener.accept()
        with connection:
            while asked := connection.recv(ASKED.size, socket.MSG_WAITALL):
                first, count = ASKED.unpack(asked)
                digest = hashlib.sha256()
                for page in range(first, first + count):
                    at = page * 7919 % (len(data) // PAGE) * PAGE
                    data[at] ^= 0x55
                    digest.update(data[at : at + PAGE])
                    data[at] ^= 0x55
                connection.sendall(digest.digest())


def ask(path, client, answers):
    digest = hashlib.sha256()
    with socket.socket(socket.AF_UNIX) as to:
        to.connect(path)
        for n in range(REQUESTS):
            to.sendall(ASKED.pack(client * 1_000 + n * 131, 16))
            digest.update(to.recv(32, socket.MSG_WAITALL))
    answers[client] = digest.hexdigest()


def main():
    pages = int(sys.argv[1]) << 8
    data = bytearray()
    for n in range(pages):
        data += hashlib.sha256(b"%d" % n).digest() * (PAGE // 32)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(CLIENTS)
        workers = []
        for _ in range(WORKERS):
            worker = os.fork()
            if worker == 0:
                serve(listener, data)
            workers.append(worker)
        answers = [None] * CLIENTS
        clients = [threading.Thread(target=ask, args=(path, n, answers)) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        for worker in workers:
            os.kill(worker, signal.SIGTERM)
            os.waitpid(worker, 0)
    print("\n".join(answers))


main()
