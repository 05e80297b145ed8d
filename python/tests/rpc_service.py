"""A service over a pool, which the tests of calls share. Needs the command (UNRACK) and the library."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np
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


class RpcService(unittest.TestCase):
    """A pool of one kind of memory, a service in this process, and a client of it."""

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
