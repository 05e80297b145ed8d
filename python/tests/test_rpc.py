"""Clients and services in Python over a pool of their own. Needs the command (UNRACK) and the library."""

import asyncio
import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np
from pools import Pool, in_child
from skips import skip
from unrack import rpc

# How a manager ends where the machine lacks something.
LACKING = 3
# A service of its own process: it says that it is ready, and naps when it is called.
SERVICE = """
import sys, time
from unrack import rpc

with rpc.Server("other") as server:
    server.method("nap")(lambda call: time.sleep(60))
    server.method("echo")(lambda call: bytes(call.request))
    server.stream("naps")(lambda call: [b""])
    server.start(sys.argv[1])
    print("ready", flush=True)
    time.sleep(60)
"""

# Waits for what does not come, until a signal ends it.
WAITER = """
import os, socket, sys, threading, time
from unrack import lend, rpc

pool, what = sys.argv[1:]


def busy():
    # The one thread of the service runs this, and answers nobody else.
    client = rpc.connect("other", pool, calls=1)
    first = client.call("nap", 8)
    first.start()
    return client, first


def answer():
    busy()[0].call("echo", 8).answer()


def timeout():
    busy()[1].answer(timeout=60)


def deadline():
    rpc.connect("other", pool, deadline=60).call("nap", 8).answer()


def start():
    client, first = busy()
    client.call("echo", 8).start()


def room():
    client, first = busy()
    held = [client.call("echo", 8) for _ in range(10_000)]


def part():
    busy()[0].call("naps", 8).parts().__next__()


def connect():
    # A pool whose manager answers nobody.
    path = os.path.join(os.path.dirname(pool), f"silent-{os.getpid()}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    rpc.connect("other", path, patience=60)


def accept():
    lend.Endpoint(pool).listen(f"accept-{os.getpid()}").accept()


def close():
    server = rpc.Server(f"napping-{os.getpid()}")
    called = threading.Event()
    server.method("nap")(lambda call: called.set() or time.sleep(60))
    server.start(pool)
    kept = rpc.connect(f"napping-{os.getpid()}", pool).call("nap", 8)
    kept.start()
    called.wait()
    server.close()


try:
    print("ready", flush=True)
    globals()[what]()
    print("it did not wait", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
os._exit(0)
"""

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


class Waits(unittest.TestCase):
    """What waits in C, on the main thread."""

    def setUp(self):
        self.pool = self.enterContext(Pool(per_client="50%")).path
        command = [sys.executable, "-c", SERVICE, self.pool]
        service = self.enterContext(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        self.addCleanup(service.kill)
        self.assertEqual(service.stdout.readline(), "ready\n")

    def test_signals_end_every_wait(self):
        waits = ("answer", "timeout", "deadline", "start", "room", "part", "connect", "accept", "close")
        waiting = {}
        for wait in waits:
            command = [sys.executable, "-c", WAITER, self.pool, wait]
            waiting[wait] = self.enterContext(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            self.addCleanup(waiting[wait].kill)
        for process in waiting.values():
            self.assertEqual(process.stdout.readline(), "ready\n")
        # Long enough for most to wait; one that does not yet is interrupted all the same.
        time.sleep(0.5)
        for process in waiting.values():
            process.send_signal(signal.SIGINT)
        for wait, process in waiting.items():
            with self.subTest(wait=wait):
                self.assertEqual(process.communicate(timeout=20)[0], "interrupted\n")

    def test_waits_in_slices_keep_their_times_and_say_them(self):
        with rpc.connect("other", self.pool) as client, client.call("nap", 8) as napping:
            with self.assertRaisesRegex(rpc.Deadline, r"did not answer within 0\.2 s") as seen:
                napping.answer(timeout=0.2)
            self.assertTrue(seen.exception.under_way)
            # The service has one thread, which naps.
            with rpc.connect("other", self.pool, deadline=0.2) as limited:
                with self.assertRaisesRegex(rpc.Deadline, "within 200ms") as seen:
                    limited.call("echo", 8).answer()
                self.assertFalse(seen.exception.under_way)
                with self.assertRaisesRegex(rpc.Deadline, r"within 0\.2 s"):
                    next(limited.call("naps", 8).parts())


class Calls(unittest.TestCase):
    memory = "coherent"

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="unrack-python-"))
        cls.pool = str(Path(folder) / "pool")
        command = [
            os.environ["UNRACK"],
            "pool",
            "serve",
            "--until-idle",
            "--capacity",
            "64MiB",
            "--socket",
            cls.pool,
            "--memory",
            cls.memory,
        ]
        manager = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        cls.addClassCleanup(manager.wait, 10)
        cls.addClassCleanup(manager.terminate)
        deadline = time.monotonic() + 10
        while not os.path.exists(cls.pool):
            if cls.memory == "incoherent" and manager.poll() == LACKING:
                skip("flush", cls.__name__, "this processor cannot flush lines")
            assert manager.poll() is None and time.monotonic() < deadline, "the manager does not start"
            time.sleep(0.01)
        cls.server = cls.enterClassContext(rpc.Server("test", workers=2))
        cls.kept = []
        for name, handler in HANDLERS.items():
            cls.server.method(name)(handler)
        cls.server.method("keep.slice")(lambda call: cls.kept.append(call.request[1:]))
        cls.server.method("keep.view")(lambda call: cls.kept.append(call.request))
        cls.ended = []
        cls.server.stream("count")(cls.count)
        cls.server.start(cls.pool)

    @classmethod
    def count(cls, call):
        number = int.from_bytes(call.request, "little")
        if number > 1000:
            raise rpc.Refusal(5)
        try:
            for left in range(number, 0, -1):
                yield left.to_bytes(8, "little")
                if left == 400:
                    raise ValueError("as asked")
        finally:
            cls.ended.append(number)

    def setUp(self):
        self.client = self.enterContext(rpc.connect("test", self.pool))

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
            self.assertIn("10ms", caught.exception.cause)
            # It is over, and not under way as after a timeout.
            with self.assertRaises(rpc.Invalid):
                request.answer()
        with (
            rpc.connect("test", self.pool, deadline=0.01) as hurried,
            hurried.call("nap", 8, deadline=20) as request,
        ):
            self.assertEqual(len(request.answer()), 0)

    def test_tasks_share_a_client(self):
        """Far more than may be under way at a time, in one thread."""

        async def often(client, number):
            for _ in range(5):
                with client.call("square", 8) as request:
                    np.frombuffer(request.body, np.float64)[0] = number
                    self.assertEqual(np.frombuffer(await request.wait(), np.float64)[0], number**2)

        async def all_of_them():
            for calls in (1, 17):
                with rpc.connect("test", self.pool, calls=calls) as client:
                    async with asyncio.TaskGroup() as group:
                        for number in range(40):
                            group.create_task(often(client, number))

        asyncio.run(asyncio.wait_for(all_of_them(), 30))

    def test_a_task_that_waits_holds_nobody_up(self):
        async def nap(**options):
            with self.client.call("nap", 8, **options) as request:
                return len(await request.wait())

        async def all_of_them():
            napping = asyncio.create_task(nap())
            for _ in range(5):
                with self.client.call("square", 8) as request:
                    await request.wait()
            self.assertFalse(napping.done())
            self.assertEqual(await napping, 0)
            with self.assertRaises(rpc.Deadline):
                await nap(deadline=0.01)
            with self.assertRaises(rpc.UnknownMethod), self.client.call("nowhere", 8) as request:
                await request.wait()
            with self.client.call("nap", 8) as request:
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(request.wait(), 0.01)
                # Still under way.
                self.assertEqual(len(await request.wait()), 0)

        # The first call leases the memory that it is in.
        with self.client.call("square", 8) as request:
            request.answer()
        descriptors = len(os.listdir("/proc/self/fd"))
        asyncio.run(asyncio.wait_for(all_of_them(), 30))
        # Whoever wakes a task closes its eventfd after that.
        for _ in range(1000):
            if len(os.listdir("/proc/self/fd")) == descriptors:
                break
            time.sleep(0.01)
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)

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

    def test_calls_that_nobody_waits_for_give_their_memory_back(self):
        for number in range(2000):
            with self.client.call("nothing", 4096) as request:
                if number % 3 == 0:
                    request.start()
                elif number % 3 == 1:
                    request.send()
        with self.client.call("square", 8) as request:
            request.answer()

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


class CallsInModel(Calls):
    memory = "model"


class CallsFlushing(Calls):
    memory = "incoherent"


def square(call):
    numbers = np.frombuffer(call.request, np.float64)
    np.multiply(numbers, numbers, out=np.frombuffer(call.answer(len(call.request)), np.float64))


def refuse(call):
    raise rpc.Refusal(7)


HANDLERS = {
    "square": square,
    "nothing": lambda call: None,
    "process": lambda call: str(call.process).encode(),
    "nap": lambda call: time.sleep(0.1),
    "refuse": refuse,
    "raise": lambda call: 1 // 0,
    "exit": lambda call: sys.exit(1),
}


if __name__ == "__main__":
    unittest.main()
