"""Buffers that processes lend each other. Needs the command (UNRACK) and the library."""

import gc
import os
import select
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np
from pools import Pool, in_child, is_in_pool, until
from unrack import lend, rpc

# Lends each peer a text of a million bytes, says so, and waits to be ended.
OWNER = """
import sys
from unrack import lend

endpoint = lend.Endpoint(sys.argv[1])
with endpoint.listen("other") as listener:
    print("ready", flush=True)
    link = listener.accept()
    with endpoint.buffer(1_000_000) as buffer:
        buffer.body[:] = b"x" * 1_000_000
        link.stream.sendall(link.lend(buffer).pack())
    link.stream.recv(1)
"""

# Receives a buffer, says so, and waits to be ended.
READER = """
import sys
from unrack import lend

link = lend.Endpoint(sys.argv[1]).open("owner")
view = link.receive(lend.Reference.unpack(link.stream.recv(16)))
print(view[:3].tobytes().decode(), flush=True)
sys.stdin.read()
"""


class Lending(unittest.TestCase):
    memory = "coherent"
    listener = near = far = None

    def setUp(self):
        self.pool = self.enterContext(Pool(memory=self.memory, test=type(self).__name__))
        self.addCleanup(self.comes_back)

    def comes_back(self):
        """All is given back when a test has let go of everything."""
        for part in (self.near, self.far, self.listener):
            if part is not None:
                part.close()
        self.listener = self.near = self.far = None
        gc.collect()
        until(self.pool.is_empty, lambda: f"{self.pool.books()} is left")

    def pair(self):
        self.owner, self.reader = lend.Endpoint(self.pool.path), lend.Endpoint(self.pool.path)
        self.addCleanup(delattr, self, "owner")
        self.addCleanup(delattr, self, "reader")
        self.listener = self.owner.listen("owner")
        self.far = self.reader.open("owner")
        self.near = self.listener.accept(20)
        return self.near, self.far

    def start(self, program):
        process = subprocess.Popen(
            [sys.executable, "-c", program, self.pool.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def lent(self, data):
        with self.owner.buffer(len(data)) as buffer:
            buffer.body[:] = data
            return self.near.lend(buffer)

    def test_a_buffer_is_read_where_it_was_written(self):
        near, far = self.pair()
        for size in (0, 1, 1000, 3_000_000):
            data = os.urandom(size)
            near.stream.sendall(self.lent(data).pack())
            reference = lend.Reference.unpack(far.stream.recv(lend.Reference.BYTES))
            self.assertEqual(reference.size, size)
            with far.receive(reference) as view:
                self.assertEqual(view, data)
                self.assertTrue(view.readonly)
                if size and self.memory == "coherent":
                    self.assertTrue(is_in_pool(np.frombuffer(view, np.uint8)))
        until(lambda: near.lent == 0, "it was not returned")

    def test_a_reader_may_write_a_writable_buffer(self):
        near, far = self.pair()
        with self.reader.buffer(64, writable=True) as buffer:
            buffer.body[:] = bytes(range(64))
            reference = far.lend(buffer)
        array = np.frombuffer(near.receive(reference, writable=True), np.uint8)
        array += 1
        self.assertEqual(array.sum(), sum(range(1, 65)))

    def test_views_outlive_all_else_and_are_returned_with_the_last(self):
        near, far = self.pair()
        data = os.urandom(200_000)
        view = far.receive(self.lent(data))
        array = np.frombuffer(view, np.uint32)[7:]
        part = view[3:50]
        del view
        far.close()
        gc.collect()
        self.lent(bytes(200_000))
        self.assertEqual(array.tobytes(), data[28:])
        self.assertGreaterEqual(near.lent, 1)
        del array
        gc.collect()
        self.assertGreaterEqual(near.lent, 1)
        self.assertEqual(part, data[3:50])
        del part
        gc.collect()
        until(lambda: near.lent == 0, "it was not returned")

    def test_a_reference_is_received_once(self):
        near, far = self.pair()
        with self.owner.buffer(1000) as buffer:
            buffer.body[:] = b"A" * 1000
            first, second = near.lend(buffer), near.lend(buffer)
        views = [far.receive(first), far.receive(second)]
        for reference in (first, second):
            with self.assertRaisesRegex(rpc.ProtocolError, "received once"):
                far.receive(reference)
        del views[0]
        gc.collect()
        later = [self.lent(b"B" * 1000) for _ in range(4)]
        self.assertEqual(views[0], b"A" * 1000)
        views.clear()
        gc.collect()
        until(lambda: near.lent == len(later), "they were not returned")
        for reference in (first, second):
            with self.assertRaisesRegex(rpc.ProtocolError, "received once"):
                far.receive(reference)
        self.assertEqual([bytes(far.receive(reference)) for reference in later], [b"B" * 1000] * 4)

    def test_bytes_stay_when_their_owner_is_killed(self):
        owner = self.start(OWNER)
        self.assertEqual(owner.stdout.readline(), "ready\n")
        link = lend.Endpoint(self.pool.path).open("other")
        self.assertEqual(link.process, owner.pid)
        view = link.receive(lend.Reference.unpack(link.stream.recv(lend.Reference.BYTES)))
        owner.kill()
        owner.wait()
        self.assertEqual(link.stream.recv(1), b"")
        self.assertEqual(view, b"x" * 1_000_000)
        link.close()
        until(lambda: self.pool.books()["services"] == 0, "the manager does not notice")
        self.assertEqual(view, b"x" * 1_000_000)

    def test_a_reader_that_is_killed_returns_what_it_had(self):
        self.owner = lend.Endpoint(self.pool.path)
        self.addCleanup(delattr, self, "owner")
        self.listener = self.owner.listen("owner")
        reader = self.start(READER)
        self.near = self.listener.accept(20)
        self.near.stream.sendall(self.lent(b"abc" * 100_000).pack())
        self.assertEqual(reader.stdout.readline(), "abc\n")
        self.lent(b"never received")
        self.assertEqual(self.near.lent, 2)
        reader.send_signal(signal.SIGKILL)
        until(lambda: self.near.lent == 0, "they were not returned")
        self.assertEqual(self.near.stream.recv(1), b"")

    def test_an_event_loop_learns_of_links(self):
        endpoint = lend.Endpoint(self.pool.path)
        with endpoint.listen("polled") as listener:
            self.assertIsNone(listener.try_accept())
            self.assertEqual(select.select([listener], [], [], 0)[0], [])
            opened = lend.Endpoint(self.pool.path).open("polled")
            self.assertEqual(select.select([listener], [], [], 20)[0], [listener])
            with listener.accept(0) as link:
                self.assertEqual(link.process, os.getpid())
            self.assertEqual(select.select([listener], [], [], 0)[0], [])
            opened.close()

    def test_errors_say_what_to_do(self):
        near, far = self.pair()
        for error, text, call in (
            (rpc.NoPool, "unrack pool serve", lambda: lend.Endpoint(self.pool.path + "x")),
            (rpc.NoService, "no service is named", lambda: self.owner.open("nobody")),
            (rpc.PoolError, "another endpoint of the process", lambda: self.owner.open("owner")),
            (rpc.PoolError, 'serves "owner" already', lambda: self.owner.listen("owner")),
            (rpc.PoolError, "the pool is full", lambda: self.owner.buffer(1 << 30)),
            (rpc.ProtocolError, "lends no 5 bytes", lambda: far.receive(lend.Reference(1 << 20, 5))),
            (rpc.Invalid, "belongs to another endpoint", lambda: near.lend(self.reader.buffer(5))),
            (TimeoutError, "within 0 s", lambda: self.listener.accept(0)),
            (ValueError, "-1 bytes", lambda: self.owner.buffer(-1)),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(error, text):
                call()
        far.close()
        with self.assertRaisesRegex(ValueError, "the link is closed"):
            far.receive(lend.Reference(0, 1))

    def test_a_child_by_fork_leaves_links_alone(self):
        near, far = self.pair()
        view = far.receive(self.lent(b"parent's"))
        lent = self.lent(b"not yet received")
        buffer = self.owner.buffer(8)

        def child():
            nonlocal view, near, far, buffer
            self.assertEqual(view.tobytes(), b"parent's")
            for use in (
                lambda: far.receive(lent),
                lambda: near.lend(buffer),
                lambda: near.stream.send(b"child's"),
                lambda: far.stream.recv(1),
                lambda: self.owner.buffer(8),
                lambda: self.owner.listen("child"),
                lambda: self.reader.open("owner"),
                lambda: self.listener.accept(),
            ):
                with self.assertRaisesRegex(rpc.Invalid, "a child by fork must connect for itself"):
                    use()
            far.close(), near.close()
            view = near = far = buffer = self.near = self.far = self.listener = self.owner = self.reader = (
                None
            )

        in_child(child)
        far.stream.sendall(b"on")
        self.assertEqual((near.stream.recv(2), view.tobytes(), near.lent), (b"on", b"parent's", 2))
        self.assertEqual(far.receive(lent).tobytes(), b"not yet received")
        buffer.close()

    def test_threads_share_a_link(self):
        near, far = self.pair()
        failed = []

        def pass_on(number):
            data = bytes([number]) * 5000
            for _ in range(200):
                if far.receive(self.lent(data)) != data:
                    failed.append(number)

        threads = [threading.Thread(target=pass_on, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        until(lambda: near.lent == 0, "they were not returned")


class LendingThroughAModel(Lending):
    memory = "model"


if __name__ == "__main__":
    unittest.main()
