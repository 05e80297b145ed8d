"""Calls of processes that fork, are killed, or end without closing anything."""

import signal
import subprocess
import sys
import unittest

import numpy as np
from pools import in_child
from rpc_service import SERVICE, RpcService
from unrack import rpc

FORGETFUL = """
import sys
from unrack import rpc

server = rpc.Server("forgotten")
server.method("echo")(lambda call: bytes(call.request))
server.start(sys.argv[1])
client = rpc.connect("forgotten", sys.argv[1])
kept = client.call("echo", 8)
answer = kept.answer()
"""


class Processes(RpcService):
    """Ends of processes on either side."""

    def test_a_child_by_fork_is_refused_and_its_parent_goes_on(self):
        under_way = self.client.call("square", 8)
        under_way.body[:] = np.float64(3).tobytes()
        under_way.start()
        written, parts = self.client.call("square", 8), self.client.call("count", 8)
        written.body[:] = np.float64(4).tobytes()
        parts.body[:] = (3).to_bytes(8, "little")
        parts = parts.parts(1)

        def child():
            nonlocal under_way, written, parts
            self.client.close()
            for use in (
                lambda: rpc.Client(self.client_handle).call("square", 8),
                under_way.answer,
                written.answer,
                written.send,
                written.parts,
                lambda: next(parts),
                lambda: self.server.start(self.pool),
            ):
                with self.assertRaises(rpc.Invalid):
                    use()
            parts.close(), under_way.close(), written.close()
            under_way = written = parts = self.client_handle = None
            self.server.close()
            # It connects for itself.
            with rpc.connect("test", self.pool) as own, own.call("square", 8) as request:
                request.body[:] = np.float64(5).tobytes()
                self.assertEqual(np.frombuffer(request.answer(), np.float64)[0], 25)

        self.client_handle = self.client._handle
        for _ in range(3):
            in_child(child)
            for number in range(200):
                with self.client.call("square", 8) as request:
                    request.body[:] = np.float64(number).tobytes()
                    self.assertEqual(np.frombuffer(request.answer(), np.float64)[0], number**2)
        self.assertEqual(np.frombuffer(under_way.answer(), np.float64)[0], 9)
        self.assertEqual(np.frombuffer(written.answer(), np.float64)[0], 16)
        self.assertEqual([int.from_bytes(part, "little") for part in parts], [3, 2, 1])
        under_way.close(), written.close()
        del self.client_handle

    def test_a_server_that_is_killed_is_gone(self):
        command = [sys.executable, "-c", SERVICE, self.pool]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
            try:
                self.assertEqual(other.stdout.readline(), "ready\n")
                client = rpc.connect("other", self.pool)
                with client.call("echo", 3) as request:
                    request.body[:] = b"abc"
                    self.assertEqual(request.answer(), b"abc")
                with client.call("nap", 8) as request:
                    request.start()
                    other.send_signal(signal.SIGKILL)
                    with self.assertRaises(rpc.Gone) as caught:
                        request.answer()
                    self.assertIn(f"process {other.pid}", caught.exception.peer)
            finally:
                other.kill()

    def test_a_program_that_forgets_its_server_ends(self):
        subprocess.run([sys.executable, "-c", FORGETFUL, self.pool], check=True, timeout=20)


class ProcessesInModel(Processes):
    memory = "model"


class ProcessesFlushing(Processes):
    memory = "incoherent"


if __name__ == "__main__":
    unittest.main()
