"""Waits in C of the main thread: signals end them, and they keep their times."""

import signal
import subprocess
import sys
import time
import unittest

from pools import Pool
from rpc_service import SERVICE
from unrack import rpc

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

    def test_the_deadline_of_a_call_covers_its_wait_for_room(self):
        # A client without a deadline waits without limit for room, but a call with one does not.
        with rpc.connect("other", self.pool, calls=1) as client, client.call("nap", 8) as napping:
            napping.start()
            begin = time.monotonic()
            with self.assertRaises(rpc.Exhausted):
                held = [client.call("echo", 8, deadline=0.3) for _ in range(10_000)]
                self.fail(f"room for {len(held)} calls")
            self.assertLess(time.monotonic() - begin, 30)


if __name__ == "__main__":
    unittest.main()
