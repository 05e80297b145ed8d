"""Memory of calls in Python: for how long it can be read and written, and when it is given back."""

import gc
import logging
import socket
import subprocess
import sys
import unittest

import numpy as np
from rpc_service import RpcService
from unrack import rpc

# Handlers keep what they should not. It is read and written when the client is gone, and when the server is.
KEEPER = """
import gc, logging, sys, time
import numpy as np
from unrack import rpc

logging.getLogger("unrack.rpc").setLevel(logging.CRITICAL)
kept = []


def keep(call):
    kept.append(call.request[1:])
    kept.append(np.frombuffer(call.request, np.uint8))
    kept.append(np.frombuffer(call.answer(size), np.uint8))


def use():
    for view in kept:
        assert len(bytes(view)) in (size, size - 1)
    kept[2][:] = 7


size = 3 << 20
server = rpc.Server("keeper", workers=int(sys.argv[2]))
server.method("keep")(keep)
server.method("echo")(lambda call: bytes(call.request))
server.start(sys.argv[1])
with rpc.connect("keeper", sys.argv[1]) as client, client.call("keep", size) as request:
    try:
        request.answer()
        raise SystemExit("it was answered")
    except rpc.Failed:
        pass
del client, request
gc.collect()
with rpc.connect("keeper", sys.argv[1]) as client:
    for _ in range(30):
        with client.call("echo", size) as request:
            request.body[:3] = b"abc"
            assert request.answer()[:3] == b"abc"
        use()
        time.sleep(0.01)
del client, request
gc.collect()
server.close()
del server
gc.collect()
use()
kept.clear()
"""


class Memory(RpcService):
    """Views of requests and answers, on both sides."""

    def test_views_end_with_their_block(self):
        with self.client.call("square", 8) as request:
            body = request.body
            answer = request.answer()
            with self.assertRaises(ValueError):
                body[0] = 1
            with self.assertRaises(TypeError):
                answer[0] = 1
        for view in (body, answer):
            with self.assertRaises(ValueError):
                view[0]
            with self.assertRaises(ValueError):
                np.frombuffer(view, np.uint8)
        with self.assertRaises(ValueError):
            request.start()

    def test_what_is_made_of_views_keeps_the_memory(self):
        """Hundreds of calls later, and without the client, an array and a slice hold what they held."""
        kept = []
        with rpc.connect("test", self.pool) as client:
            for number in range(4):
                with client.call("square", 8) as request:
                    np.frombuffer(request.body, np.float64)[0] = number
                    answer = request.answer()
                    kept.append((answer[:], np.frombuffer(answer, np.float64)))
                del request, answer
            for _ in range(3000):
                with client.call("square", 8) as request:
                    np.frombuffer(request.body, np.float64)[0] = 100
                    request.answer()
        del client, request
        gc.collect()
        for number, (piece, array) in enumerate(kept):
            self.assertEqual(array[0], number**2)
            self.assertEqual(piece.cast("d")[0], number**2)

    def test_calls_that_nobody_waits_for_give_their_memory_back(self):
        for number in range(2000):
            with self.client.call("nothing", 4096) as request:
                if number % 3 == 0:
                    request.start()
                elif number % 3 == 1:
                    request.send()
        with self.client.call("square", 8) as request:
            request.answer()

    def test_a_handler_that_keeps_views_is_told(self):
        with self.client.call("keep.view", 8) as request:
            request.answer()
        with self.assertRaises(ValueError):
            self.kept[0][0]
        with (
            self.assertLogs("unrack.rpc", logging.ERROR) as logged,
            self.assertRaises(rpc.Failed),
            self.client.call("keep.slice", 8) as request,
        ):
            request.answer()
        self.assertIn("must copy", logged.output[0])
        self.kept.clear()

    def test_what_a_handler_keeps_does_no_harm(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        for place, workers in [(self.pool, "0"), (self.pool, "1"), (address, "0")]:
            with self.subTest(place=place, workers=workers):
                subprocess.run([sys.executable, "-c", KEEPER, place, workers], check=True, timeout=30)


class MemoryInModel(Memory):
    memory = "model"


class MemoryFlushing(Memory):
    memory = "incoherent"


if __name__ == "__main__":
    unittest.main()
