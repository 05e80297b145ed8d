"""Calls in Python: requests, answers, answers in parts, deadlines and errors."""

import logging
import os
import socket
import threading
import time
import unittest

import numpy as np
from rpc_service import HANDLERS, RpcService
from unrack import rpc


class Calls(RpcService):
    """Calls by one thread and by several."""

    def test_arrays_are_written_and_read_in_place(self):
        for count in [1, 8, 1000, 300_000]:
            with self.client.call("square", 8 * count) as request:
                np.frombuffer(request.body, np.float64)[:] = np.arange(count)
                answer = np.frombuffer(request.answer(), np.float64)
                self.assertFalse(answer.flags.writeable)
                np.testing.assert_array_equal(answer, np.arange(count) ** 2.0)
                del answer

    def test_answers_by_return_and_of_no_bytes(self):
        with self.client.call("process", 0, room=20) as request:
            self.assertEqual(len(request.body), 0)
            self.assertEqual(int(bytes(request.answer(timeout=10))), os.getpid())
        with self.client.call("nothing", 5) as request:
            self.assertEqual(len(request.answer()), 0)

    def test_the_same_over_tcp(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        with rpc.Server("far") as server:
            server.method("square")(HANDLERS["square"])
            server.start(address)
            with rpc.connect("far", address) as client, client.call("square", 8 * 100_000) as request:
                np.frombuffer(request.body, np.float64)[:] = np.arange(100_000)
                answer = np.frombuffer(request.answer(), np.float64)
                np.testing.assert_array_equal(answer, np.arange(100_000) ** 2.0)
                del answer
        with self.assertRaises(rpc.NoPool) as caught:
            rpc.connect("far", address, patience=0.2)
        self.assertIn(address, str(caught.exception))

    def test_errors_carry_cause_and_peer(self):
        def call(method, size=8, room=None):
            with self.client.call(method, size, room) as request:
                request.answer()

        process = f"process {os.getpid()}"
        with self.assertRaises(rpc.UnknownMethod) as caught:
            call("nowhere")
        self.assertIn(process, caught.exception.peer)
        with self.assertRaises(rpc.Refused) as caught:
            call("refuse")
        self.assertEqual(caught.exception.number, 7)
        with self.assertLogs("unrack.rpc", logging.ERROR), self.assertRaises(rpc.Failed):
            call("raise")
        with self.assertLogs("unrack.rpc", logging.ERROR), self.assertRaises(rpc.Failed):
            call("exit")
        with self.assertLogs("unrack.rpc", logging.ERROR), self.assertRaises(rpc.NoRoom) as caught:
            call("process", 0, 0)
        self.assertIn("room for 0", caught.exception.cause)
        self.assertEqual(caught.exception.needed, len(str(os.getpid())))
        with self.assertRaises(rpc.TooLong):
            call("square", 2**40)
        with self.assertRaises(ValueError):
            call("square", -1)
        with self.assertRaises(rpc.NoService):
            rpc.connect("nobody", self.pool)
        with self.assertRaises(rpc.NoPool):
            rpc.connect("test", self.pool + ".not")
        with self.assertRaises(rpc.PoolError) as caught, rpc.Server("test") as second:
            second.start(self.pool)
        with self.assertRaises(ValueError):
            rpc.connect("te\0st", self.pool)
        call("square")

    def test_a_timeout_leaves_the_call_under_way(self):
        with self.client.call("nap", 8) as request:
            request.start()
            with self.assertRaises(rpc.Deadline):
                request.answer(timeout=0)
            with self.assertRaises(rpc.Deadline):
                request.answer(timeout=0.01)
            self.assertEqual(len(request.answer(timeout=10)), 0)
        with (
            rpc.connect("test", self.pool, deadline=0.01) as hurried,
            hurried.call("nap", 8) as request,
            self.assertRaises(TimeoutError),
        ):
            request.answer()

    def test_a_call_has_a_deadline_of_its_own(self):
        with self.client.call("nap", 8, deadline=0.01) as request:
            with self.assertRaises(rpc.Deadline) as caught:
                request.answer()
            # On a busy machine, a part of the 10 ms may have passed before the call was made.
            self.assertRegex(caught.exception.cause, r"within (10|\d(\.\d+)?)ms|within \d+(\.\d+)?us")
            # It is over, and not under way as after a timeout.
            with self.assertRaises(rpc.Invalid):
                request.answer()
        with (
            rpc.connect("test", self.pool, deadline=0.01) as hurried,
            hurried.call("nap", 8, deadline=20) as request,
        ):
            self.assertEqual(len(request.answer()), 0)

    def parts(self, number, ahead=0):
        with self.client.call("count", 8) as request:
            request.body[:] = number.to_bytes(8, "little")
            return request.parts(ahead)

    def test_answers_in_parts(self):
        for number in (0, 1, 2, 100):
            for ahead in (0, 3):
                said = [int.from_bytes(part, "little") for part in self.parts(number, ahead)]
                self.assertEqual(said, list(range(number, 0, -1)) or [0])
        parts = self.parts(50, 2)
        first = next(parts)
        self.assertEqual(first[0], 50)
        array = np.frombuffer(first, np.uint64)
        with self.assertRaises(BufferError):
            next(parts)
        del array
        self.assertEqual(next(parts)[0], 49)
        with self.assertRaises(ValueError):
            first[0]
        parts.close()
        self.assertEqual(list(parts), [])
        with self.assertRaises(rpc.Refused) as caught:
            next(self.parts(1001))
        self.assertEqual(caught.exception.number, 5)
        with self.assertLogs("unrack.rpc", logging.ERROR), self.assertRaises(rpc.Failed):
            list(self.parts(400))
        # All that began has ended, also what was left in the middle.
        del self.ended[:]
        for _ in range(20):
            next(self.parts(300, 1))
        deadline = time.monotonic() + 20
        while len(self.ended) < 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(self.ended, [300] * 20)

    def test_threads_share_a_client(self):
        wrong = []

        def often(number):
            for _ in range(100):
                with self.client.call("square", 8) as request:
                    np.frombuffer(request.body, np.float64)[0] = number
                    if np.frombuffer(request.answer(), np.float64)[0] != number**2:
                        wrong.append(number)

        threads = [threading.Thread(target=often, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class CallsInModel(Calls):
    memory = "model"


class CallsFlushing(Calls):
    memory = "incoherent"


if __name__ == "__main__":
    unittest.main()
