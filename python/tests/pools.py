"""A pool for tests: served by a manager of its own, whose books are compared before and after."""

import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
from skips import skip

# How a manager ends where the machine lacks something.
LACKING = 3


class Pool:
    """A manager in a folder of its own, as a context."""

    def __init__(self, capacity="64MiB", memory="coherent", test="", per_client="100%"):
        self._folder = tempfile.TemporaryDirectory(prefix="unrack-python-")
        self.path = str(Path(self._folder.name) / "pool")
        command = [os.environ["UNRACK"], "pool", "serve", "--capacity", capacity, "--socket", self.path]
        command += ["--memory", memory, "--per-client", per_client]
        self._command, self._memory, self._test = command, memory, test
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        """Starts the manager."""
        self._manager = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: self._is_served(self._memory, self._test), "the manager does not start")

    def kill(self):
        """Kills the manager. Another one may take over."""
        self._manager.kill()
        self._manager.wait()

    def _is_served(self, memory, test):
        if memory == "incoherent" and self._manager.poll() == LACKING:
            skip("flush", test, "this processor cannot flush lines")
        assert self._manager.poll() is None, "the manager has ended"
        # The socket is there before it takes connections.
        listed = [os.environ["UNRACK"], "pool", "ls", "--socket", self.path]
        return (
            os.path.exists(self.path)
            and not subprocess.run(listed, capture_output=True, check=False).returncode
        )

    def books(self):
        """Numbers of things that the manager lists, and bytes that are taken."""
        command = [os.environ["UNRACK"], "pool", "ls", "--json", "--socket", self.path]
        listed = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        books = {thing: len(listed[thing]) for thing in ("processes", "services", "channels", "segments")}
        return books | {"taken": listed["capacity_bytes"] - listed["free_bytes"]}

    def is_empty(self):
        """Whether nobody has anything of the pool."""
        return not any(self.books().values())

    def close(self):
        self._manager.terminate()
        self._manager.wait(20)
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def until(holds, otherwise, seconds=30):
    """Waits until something holds, and fails if it never does."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, otherwise() if callable(otherwise) else otherwise
        time.sleep(0.005)


def in_child(function):
    """Runs a function in a child by fork, which has to end well in time."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            function()
            # Finalizers run, as at the end of a child of multiprocessing.
            gc.collect()
            status = 0
        except BaseException:  # noqa: BLE001 (the child ends here)
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    ended = []

    def has_ended():
        ended[:] = os.waitpid(child, os.WNOHANG)
        return ended[0] == child

    try:
        until(has_ended, "the child hangs")
    except AssertionError:
        os.kill(child, 9)
        os.waitpid(child, 0)
        raise
    assert ended[1] == 0, "the child failed"


def mappings():
    """Ranges of addresses at which this process has memory of a pool mapped."""
    ranges = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/memfd:" in line:
            ranges.append(tuple(int(end, 16) for end in re.match(r"(\w+)-(\w+)", line).groups()))
    return ranges


def is_in_pool(array):
    """Whether all of an array lies in memory that this process has mapped from a pool."""
    first, last = np.lib.array_utils.byte_bounds(array)
    return any(start <= first and last <= end for start, end in mappings())
