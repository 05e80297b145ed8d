"""The comms of Dask over a pool: what distributed's own tests of comms check, and by reference. Needs UNRACK and the library."""

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import unittest

import dask.config
import numpy as np
import unrack.dask
from distributed.comm import CommClosedError, connect, listen
from distributed.comm.addressing import (
    get_address_host,
    get_address_host_port,
    get_local_address_for,
    parse_address,
    resolve_address,
)
from distributed.comm.core import FatalCommClosedError
from distributed.comm.registry import get_backend
from distributed.protocol import Serialized, to_serialize
from pools import Pool, is_in_pool, until

# Connects to a listener, reads a message, says so, and waits to be ended.
PEER = """
import asyncio, sys
import dask.config
import unrack.dask
from distributed.comm import connect

async def main():
    dask.config.set({"distributed.comm.unrack.pool": sys.argv[1]})
    comm = await connect(sys.argv[2])
    print((await comm.read())["array"].sum(), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


# A name in a pool, where nobody listens.
PORT = 1
# Slow steps of the loop, of which tests in debug mode tell.
logging.getLogger("asyncio").setLevel(logging.ERROR)


class Pooled(unittest.IsolatedAsyncioTestCase):
    """A pool that the settings of Dask name, and that is empty in the end."""

    capacity = "256MiB"

    def setUp(self):
        self.pool = self.enterContext(Pool(self.capacity))
        self.addCleanup(self.comes_back)
        self.enterContext(dask.config.set({"distributed.comm.unrack.pool": self.pool.path}))

    def comes_back(self):
        gc.collect()
        until(self.pool.is_empty, lambda: f"{self.pool.books()} is left")


class Unreadable:
    """Ends too early for who reads it."""

    def __reduce__(self):
        return _raise, (EOFError("as asked"),)


class Unwritable:
    """Cannot be written."""

    def __reduce__(self):
        raise TypeError("as asked")


def _raise(error):
    raise error


class Comms(Pooled):
    async def listening(self, handler, address="unrack://127.0.0.1:0", **arguments):
        listener = listen(address, handler, **arguments)
        await listener.start()
        self.addAsyncCleanup(self.stop, listener)
        return listener

    async def stop(self, listener):
        listener.stop()

    async def pair(self, **arguments):
        """Both ends of a comm."""
        accepted = asyncio.get_running_loop().create_future()

        async def handler(comm):
            accepted.set_result(comm)

        listener = await self.listening(handler, **arguments)
        near = await connect(listener.contact_address, timeout=20, **arguments)
        far = await asyncio.wait_for(accepted, 20)
        for comm in (near, far):
            self.addAsyncCleanup(comm.close)
        return near, far

    def test_addresses_are_hosts_and_ports(self):
        address = "unrack://host:8786"
        self.assertEqual(parse_address(address), ("unrack", "host:8786"))
        self.assertEqual(get_address_host(address), "host")
        self.assertEqual(get_address_host(f"unrack://[::1]:{PORT}"), "::1")
        self.assertEqual(get_address_host_port(address), ("host", 8786))
        self.assertEqual(resolve_address(address), address)
        self.assertEqual(get_local_address_for(address), "unrack://host")
        for wrong in ("unrack://127.0.0.1", "unrack://127.0.0.1:x", "unrack://::1:80"):
            with self.subTest(wrong=wrong), self.assertRaises(ValueError):
                resolve_address(wrong)

    async def test_a_listener_has_the_address_that_it_was_asked_for(self):
        async def handler(comm):
            await comm.close()

        listener = await self.listening(handler)
        host, port = get_address_host_port(listener.contact_address)
        self.assertEqual((host, listener.listen_address), ("127.0.0.1", listener.contact_address))
        self.assertGreater(port, 0)
        with self.assertRaisesRegex(OSError, f"port {port} of the pool"):
            await self.listening(handler, f"unrack://127.0.0.1:{port}")
        listener.stop()
        again = await self.listening(handler, f"unrack://127.0.0.1:{port}")
        self.assertEqual(again.contact_address, f"unrack://127.0.0.1:{port}")
        anywhere = await self.listening(handler, "unrack://", default_host="some-host")
        self.assertRegex(anywhere.contact_address, r"^unrack://some-host:\d+$")
        with self.assertRaisesRegex(ValueError, "not started"):
            listen("unrack://127.0.0.1:0", handler).listen_address  # noqa: B018

    async def test_messages_go_both_ways(self):
        near, far = await self.pair()
        self.assertEqual(far.local_address, near.peer_address)
        self.assertEqual(near.local_address, f"unrack://127.0.0.1:{os.getpid()}")
        self.assertTrue(near.same_host)
        self.assertIn("UnrackComm", repr(near))
        for message in ("x", {"op": "ping", "n": (1, 2.5, None, b"bytes")}, {"many": tuple(range(30_000))}):
            for one, other in ((near, far), (far, near)):
                sent = await one.write(message)
                self.assertGreater(sent, 0)
                self.assertEqual(await other.read(), message)

    async def test_many_comms_at_once(self):
        async def echo(comm):
            with self.assertRaises(CommClosedError):
                while True:
                    message = await comm.read()
                    await comm.write({"array": to_serialize(message["array"])})

        listener = await self.listening(echo)

        async def client(number):
            comm = await connect(listener.contact_address, timeout=60)
            for size in (1, 10_000, 100_000):
                array = np.full(size, number)
                await comm.write({"array": to_serialize(array)})
                np.testing.assert_array_equal((await comm.read())["array"], array)
            await comm.close()

        await asyncio.gather(*(client(number) for number in range(60)))

    async def test_large_frames_are_received_where_they_were_copied_to(self):
        near, far = await self.pair()
        for size in (unrack.dask.LEAST // 8, 1_000_000, 12_500_000):
            array = np.arange(size)
            await near.write({"array": to_serialize(array), "other": to_serialize(array[:5])})
            message = await far.read()
            received = message["array"]
            np.testing.assert_array_equal(received, array)
            np.testing.assert_array_equal(message["other"], array[:5])
            self.assertTrue(is_in_pool(received) and received.flags.writeable)
            self.assertFalse(is_in_pool(message["other"]))
            received += 1
            np.testing.assert_array_equal(received, array + 1)
            del message, received
            gc.collect()

    async def test_arrays_stay_when_the_comm_is_closed(self):
        near, far = await self.pair()
        await near.write({"array": to_serialize(np.arange(100_000))})
        array = (await far.read())["array"]
        await near.close()
        await far.close()
        gc.collect()
        np.testing.assert_array_equal(array, np.arange(100_000))
        self.assertTrue(is_in_pool(array))

    async def test_what_the_pool_has_no_room_for_goes_over_the_socket(self):
        near, far = await self.pair()
        array = np.arange(40_000_000)
        task = asyncio.create_task(near.write({"array": to_serialize(array)}))
        received = (await far.read())["array"]
        await task
        np.testing.assert_array_equal(received, array)
        self.assertFalse(is_in_pool(received))
        await near.write({"array": to_serialize(array[:1_000_000])})
        self.assertTrue(is_in_pool((await far.read())["array"]))

    async def test_messages_are_forwarded_without_being_read(self):
        near, far = await self.pair(deserialize=False)
        array = np.arange(100_000)
        await near.write({"array": to_serialize(array)})
        message = await far.read()
        self.assertIsInstance(message["array"], Serialized)
        await far.write(message)
        self.assertTrue(is_in_pool(np.asarray((await near.read())["array"].frames[0])))

    async def test_each_array_is_given_back_by_itself(self):
        near, far = await self.pair()
        arrays = [np.full(100_000, at) for at in range(3)]
        await near.write([to_serialize(array) for array in arrays])
        received = list(await far.read())
        lent = near._link.lent
        self.assertEqual(lent, 3)
        for left in (2, 1, 0):
            received.pop()
            gc.collect()
            until(lambda left=left: near._link.lent == left, "it was not given back")

    async def test_what_cannot_be_read_back_ends_the_comm(self):
        near, far = await self.pair()
        await near.write({"x": to_serialize(Unreadable())})
        with (
            self.assertLogs("distributed", logging.ERROR),
            self.assertRaisesRegex(CommClosedError, "truncated"),
        ):
            await far.read()
        self.assertTrue(far.closed())

    async def test_what_cannot_be_written_is_said_and_ends_nothing(self):
        near, far = await self.pair()
        with self.assertLogs("distributed", logging.ERROR), self.assertRaises(TypeError):
            await near.write({"x": to_serialize(Unwritable())}, on_error="raise")
        await near.write("on")
        self.assertEqual(await far.read(), "on")

    async def test_many_listeners(self):
        async def handler(comm):
            await comm.write(comm.local_address)
            await comm.close()

        listeners = [await self.listening(handler) for _ in range(20)]
        addresses = {listener.contact_address for listener in listeners}
        self.assertEqual(len(addresses), 20)
        for address in addresses:
            comm = await connect(address, timeout=20)
            self.assertEqual(await comm.read(), address)
            await comm.close()

    async def test_who_connects_waits_for_a_listener_to_start(self):
        async def handler(comm):
            await comm.write("late")
            await comm.close()

        first = await self.listening(handler)
        address = first.contact_address
        first.stop()
        connecting = asyncio.create_task(connect(address, timeout=60))
        for _ in range(3):
            await asyncio.sleep(0)
        await self.listening(handler, address)
        comm = await connecting
        self.assertEqual(await comm.read(), "late")
        await comm.close()

    async def test_empty_and_strange_frames(self):
        near, far = await self.pair()
        arrays = [
            np.empty(0),
            np.empty((3, 0, 2)),
            np.asfortranarray(np.ones((300, 300))),
            np.ones((400, 400))[::2],
        ]
        arrays += [
            np.zeros(100_000, [("a", "i4"), ("b", "f8")]),
            np.array("text"),
            np.broadcast_to(1.0, (300, 300)),
        ]
        await near.write({str(at): to_serialize(array) for at, array in enumerate(arrays)})
        for at, received in (await far.read()).items():
            np.testing.assert_array_equal(received, arrays[int(at)])

    async def test_the_end_of_a_comm_is_an_error_at_both_ends(self):
        for end in ("close", "abort"):
            near, far = await self.pair()
            await near.write("last")
            waits = asyncio.create_task(near.read())
            await asyncio.sleep(0)
            if end == "close":
                await near.close()
            else:
                near.abort()
            self.assertTrue(near.closed())
            with self.assertRaises(CommClosedError):
                await waits
            for call in (near.read(), near.write("x")):
                with self.assertRaises(CommClosedError):
                    await call
            self.assertEqual(await far.read(), "last")
            self.assertTrue(far.closed())
            with self.assertRaisesRegex(CommClosedError, "closed the connection, or has ended|closed"):
                await far.read()
            with self.assertRaises(CommClosedError):
                await far.write("x")
            await far.close()

    async def test_a_read_that_is_cancelled_ends_the_comm(self):
        near, far = await self.pair()
        waits = asyncio.create_task(near.read())
        await asyncio.sleep(0)
        waits.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await waits
        self.assertTrue(near.closed())
        with self.assertRaises(CommClosedError):
            await far.read()

    async def test_a_peer_that_is_killed_is_an_error_and_its_frames_stay(self):
        accepted = asyncio.get_running_loop().create_future()

        async def handler(comm):
            accepted.set_result(comm)

        listener = await self.listening(handler)
        arguments = [sys.executable, "-c", PEER, self.pool.path, listener.contact_address]
        peer = await asyncio.to_thread(subprocess.Popen, arguments, stdout=subprocess.PIPE)
        self.addCleanup(peer.communicate)
        self.addCleanup(peer.kill)
        comm = await asyncio.wait_for(accepted, 60)
        await comm.write({"array": to_serialize(np.ones(1_000_000))})
        self.assertEqual(await asyncio.to_thread(peer.stdout.readline), b"1000000.0\n")
        self.assertEqual(comm.peer_address, f"unrack://127.0.0.1:{peer.pid}")
        self.assertGreater(self.pool.books()["segments"], 0)
        peer.send_signal(signal.SIGKILL)
        with self.assertRaises(CommClosedError):
            await comm.read()

    async def test_a_message_that_breaks_off_is_an_error(self):
        for part in (
            b"\1",
            b"\1" + bytes(7),
            b"\1" + bytes(7) + b"\5" + bytes(7) + b"\xff" * 8 + b"abc",
            b"\xff" * 8,
        ):
            near, far = await self.pair()
            near._link.stream.send(part)
            near.abort()
            with self.assertRaises(CommClosedError):
                await far.read()

    async def test_a_reference_to_what_was_not_lent_is_an_error(self):
        near, far = await self.pair()
        near._link.stream.send(
            b"\1" + bytes(7) + (1 << 20).to_bytes(8, "little") + (1 << 21).to_bytes(8, "little")
        )
        with self.assertRaisesRegex(CommClosedError, "lends no 1048576 bytes"):
            await far.read()
        self.assertTrue(far.closed())

    async def test_a_listener_that_stops_keeps_its_comms(self):
        near, far = await self.pair()
        listener = await self.listening(lambda comm: comm.close())
        listener.stop()
        address = listener.contact_address
        connector = get_backend("unrack").get_connector()
        with self.assertRaisesRegex(CommClosedError, f"no process listens at {address}.*same pool"):
            await connector.connect(parse_address(address)[1])
        with self.assertRaisesRegex(OSError, f"Timed out trying to connect to {address}"):
            await connect(address, timeout="200 ms")
        await near.write("on")
        self.assertEqual(await far.read(), "on")

    async def test_a_pool_that_is_not_served_is_said_at_once(self):
        async def handler(comm):
            await comm.close()

        with dask.config.set({"distributed.comm.unrack.pool": self.pool.path + "-none"}):
            for start in (connect(f"unrack://127.0.0.1:{PORT}", timeout=60), self.listening(handler)):
                with self.assertRaisesRegex(
                    FatalCommClosedError, "unrack pool serve.*distributed.comm.unrack.pool"
                ):
                    await start

    async def test_encryption_is_refused(self):
        async def handler(comm):
            await comm.close()

        with self.assertRaisesRegex(RuntimeError, "encryption required.*unrack://127.0.0.1:0"):
            listen("unrack://127.0.0.1:0", handler, require_encryption=True)
        with self.assertRaisesRegex(RuntimeError, "encryption required"):
            await connect(f"unrack://127.0.0.1:{PORT}", require_encryption=True)

    async def test_a_handshake_that_breaks_off_harms_no_other(self):
        near, far = await self.pair()
        connector = get_backend("unrack").get_connector()
        silent = await connector.connect(parse_address(near.peer_address)[1])
        silent.abort()
        await near.write("on")
        self.assertEqual(await far.read(), "on")


if __name__ == "__main__":
    unittest.main()
