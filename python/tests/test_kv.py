"""The store's client in Python beside a store of its own. Needs the commands (UNRACK, and `unrack-kv` beside it)."""

import gc
import os
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np
from pools import in_child
from skips import skip
from unrack import kv, rpc

# How a manager ends where the machine lacks something.
LACKING = 3


class Stores(unittest.TestCase):
    memory = "coherent"

    @classmethod
    def setUpClass(cls):
        cls.pool = str(Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="unrack-kv-"))) / "pool")
        with socket.create_server(("127.0.0.1", 0)) as free:
            cls.far = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        command = os.environ["UNRACK"]
        serve = [command, "pool", "serve", "--until-idle", "--capacity", "64MiB", "--socket", cls.pool]
        serve += ["--memory", cls.memory]
        cls.start(serve, lambda: os.path.exists(cls.pool))
        store = Path(command).with_name("unrack-kv")
        cls.start([store, "serve", "--socket", cls.pool, "--listen", cls.far], cls.is_served)

    @classmethod
    def start(cls, command, ready):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        cls.addClassCleanup(process.wait, 10)
        cls.addClassCleanup(process.terminate)
        deadline = time.monotonic() + 20
        while not ready():
            if cls.memory == "incoherent" and process.poll() == LACKING:
                skip("flush", cls.__name__, "this processor cannot flush lines")
            assert process.poll() is None and time.monotonic() < deadline, f"{command} does not start"
            time.sleep(0.01)

    @classmethod
    def is_served(cls):
        try:
            kv.connect(cls.pool).close()
        except rpc.NoService:
            return False
        return True

    def both(self):
        for place in (self.pool, self.far):
            with self.subTest(place=place), kv.connect(place) as store:
                yield store

    def test_what_is_put_is_got_until_it_is_deleted(self):
        for store in self.both():
            self.assertIsNone(store.get(b"a"))
            self.assertIsNone(store.delete(b"a"))
            first = store.put(b"a", b"one")
            for size in [0, 1, 4096, 4097, 300_000]:
                version = store.put(b"a", bytes(size))
                with store.get(b"a") as value:
                    self.assertEqual((value.version, value.body), (version, bytes(size)))
                    with self.assertRaises(TypeError):
                        value.body[:1] = b"x"
            self.assertIsNone(store.put_if(b"a", first, b"no"))
            self.assertGreater(store.put_if(b"a", version, b"yes"), version)
            self.assertIsNone(store.put_if(b"a", 0, b"no"))
            self.assertGreater(store.delete(b"a"), version)
            self.assertGreater(store.put_if(b"a", 0, b"anew"), version)
            store.delete(b"a")
            with self.assertRaises(ValueError):
                store.get(bytes(257))

    def test_a_value_stays_as_it_is_while_it_is_read(self):
        """Whatever is made of it, also when it was overwritten and deleted, and when the store was closed."""
        for store in self.both():
            kept = []
            for number in range(50):
                store.put(b"key", np.full(1000, number))
                value = store.get(b"key")
                kept.append((np.frombuffer(value.body, np.int64), value.body[8:16]))
                value.close()
            for number in range(200):
                store.put(b"other", bytes([number]) * 8000)
            store.delete(b"key")
            store.close()
            del store, value
            gc.collect()
            for number, (array, piece) in enumerate(kept):
                self.assertTrue((array == number).all())
                self.assertEqual(piece.cast("q")[0], number)

    def test_a_child_by_fork_is_refused_and_its_parent_goes_on(self):
        for store in self.both():
            store.put(b"key", b"parent's")
            value = store.get(b"key")

            def child(store=store, value=value):
                self.assertEqual(bytes(value.body), b"parent's")
                for use in (
                    lambda: store.get(b"key"),
                    lambda: store.put(b"key", b"child's"),
                    lambda: store.delete(b"key"),
                ):
                    with self.assertRaises(rpc.Invalid):
                        use()
                value.close()
                store.close()

            in_child(child)
            self.assertEqual(bytes(value.body), b"parent's")
            value.close()
            with store.get(b"key") as again:
                self.assertEqual(bytes(again.body), b"parent's")

    def test_values_are_not_copied(self):
        with kv.connect(self.pool) as store:
            store.put(b"key", bytes(1 << 20))
            with store.get(b"key") as one, store.get(b"key") as two:
                self.assertEqual(np.frombuffer(one.body, np.uint8).ctypes.data, address(two))

    def test_places_are_used_again_and_run_out(self):
        with kv.connect(self.pool) as store:
            store.put(b"key", b"value")
            for _ in range(3000):
                store.get(b"key").close()
            kept = [store.get(b"key") for _ in range(1024)]
            with self.assertRaises(BufferError) as caught:
                store.get(b"key")
            self.assertIn("close some", str(caught.exception))
            kept.pop().close()
            gc.collect()
            self.assertEqual(store.get(b"key").body, b"value")

    def test_large_values_that_are_not_read_give_their_memory_back(self):
        with kv.connect(self.pool) as store:
            for number in range(20):
                store.put(b"key", bytes([number]) * (8 << 20))
                with store.get(b"key") as value:
                    self.assertEqual(value.body[-1], number)
            with self.assertRaises((MemoryError, rpc.PoolError)):
                for number in range(20):
                    store.put(bytes([number]), bytes(8 << 20))
            for number in range(20):
                store.delete(bytes([number]))
            store.delete(b"key")


class StoresInModel(Stores):
    memory = "model"


class StoresFlushing(Stores):
    memory = "incoherent"


def address(value):
    return np.frombuffer(value.body, np.uint8).ctypes.data


if __name__ == "__main__":
    unittest.main()
