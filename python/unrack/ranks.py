"""Links between all ranks of a group of processes: messages with tags, whose bytes lie in the pool.

`unrack.torch` is built on it. Short messages go over the link's socket; longer ones are written once, into a buffer, and read in
place by each rank that it is posted to.
"""

import collections
import os
import queue
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable

from unrack import lend, rpc

__all__ = ["Ended", "Message", "Peer", "Ranks"]

#: Messages up to this length are copied over the socket: a reference costs more (measured).
SHORT = 128 << 10
# Time for which who waits for a message stays awake.
_AWAKE_NS = 50_000
# Tag, offset of the buffer, bytes.
_HEADER = struct.Struct("<qQQ")
_INLINE = 2**64 - 1
# First message of a link: rank, and which of its links it is.
_HELLO = struct.Struct("<II")

#: Bytes of a message: of the pool, or a copy.
Message = memoryview


class Ended(RuntimeError):
    """A rank is gone, or has left the group."""


class Peer:
    """A link to another rank. Several threads may take messages; each tag has an order of its own."""

    def __init__(self, rank: int, link: lend.Link, timeout: float | None) -> None:
        self.rank = rank
        self._link = link
        self._timeout = timeout
        link.stream.settimeout(timeout)
        # The same socket, by which nothing is waited for.
        self._at_once = link.stream.dup()
        self._at_once.settimeout(0)
        self._came: dict[int, collections.deque[Message]] = {}
        self._changed = threading.Condition()
        self._reading = False
        self._sending = threading.Lock()
        self._late: queue.SimpleQueue[bytes | None] | None = None

    def post(self, tag: int, message: lend.Buffer | bytes | memoryview) -> None:
        """Sends a message. A buffer is lent, and was filled; bytes are copied. It does not wait for the peer."""
        self._link.check_process()
        if isinstance(message, lend.Buffer):
            try:
                place = self._link.lend(message).offset
            except rpc.Gone as error:
                raise self._ended() from error
            self._send(_HEADER.pack(tag, place, message.size))
        else:
            self._send(_HEADER.pack(tag, _INLINE, len(message)) + message)

    def take(self, tag: int) -> Message:
        """Waits for the next message with a tag. It may be read, and is given back with its last view."""
        self._link.check_process()
        while True:
            with self._changed:
                came = self._came.get(tag)
                if came:
                    return came.popleft()
                if self._reading:
                    # Who reads stops at each message.
                    self._changed.wait()
                    continue
                self._reading = True
            self._read_one()

    def look(self, tag: int) -> bool:
        """Whether a message with a tag has come, once those that have come are read. It does not wait for others."""
        self._link.check_process()
        while True:
            with self._changed:
                if self._came.get(tag):
                    return True
                if self._reading or not select.select([self._link.stream], [], [], 0)[0]:
                    return False
                self._reading = True
            self._read_one()

    def has(self, tag: int) -> bool:
        """Whether a message with a tag is there, or may be: then `take` does not wait long."""
        with self._changed:
            if self._came.get(tag):
                return True
        return bool(select.select([self._link.stream], [], [], 0)[0])

    def fileno(self) -> int:
        """Descriptor that is readable when a message is there that was not read yet."""
        return self._link.stream.fileno()

    def close(self) -> None:
        """Ends the link. Messages that were taken stay. A child by fork leaves its parent's link alone."""
        if self._link.is_inherited:
            return
        if self._late is not None:
            self._late.put(None)
        try:
            self._link.stream.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._at_once.close()
        self._link.close()

    def _read_one(self) -> None:
        """Reads the next message, for who has set `_reading`."""
        try:
            self._read()
        finally:
            with self._changed:
                self._reading = False
                self._changed.notify_all()

    def _read(self) -> None:
        tag, place, size = _HEADER.unpack(self._receive(_HEADER.size))
        if place == _INLINE:
            if size > SHORT:
                raise Ended(f"rank {self.rank} breaks the protocol")
            message = memoryview(self._receive(size))
        else:
            message = self._link.receive(lend.Reference(place, size))
        with self._changed:
            self._came.setdefault(tag, collections.deque()).append(message)

    def _receive(self, size: int) -> bytearray:
        received = bytearray(size)
        left = memoryview(received)
        try:
            while left:
                count = self._soon(left)
                if count is None:
                    count = self._link.stream.recv_into(left)
                if count == 0:
                    raise self._ended()
                left = left[count:]
        except TimeoutError as error:
            raise TimeoutError(f"rank {self.rank} sent nothing within {self._timeout} s") from error
        except OSError as error:
            raise self._ended() from error
        return received

    def _soon(self, left: memoryview) -> int | None:
        """Bytes that come within the time that falling asleep and being woken would take."""
        end = time.perf_counter_ns() + _AWAKE_NS
        while True:
            try:
                return self._at_once.recv_into(left)
            except BlockingIOError:
                if time.perf_counter_ns() > end:
                    return None
                os.sched_yield()

    def _send(self, packet: bytes) -> None:
        """Sends a packet, or has a thread send it if the socket is full: both ranks may send before they receive."""
        with self._sending:
            sent = 0
            if self._late is None:
                try:
                    sent = self._at_once.send(packet)
                except BlockingIOError:
                    pass
                except OSError as error:
                    raise self._ended() from error
            if sent < len(packet):
                if self._late is None:
                    self._late = queue.SimpleQueue()
                    threading.Thread(target=self._send_late, args=(self._late,), daemon=True).start()
                self._late.put(packet[sent:])

    def _send_late(self, packets: "queue.SimpleQueue[bytes | None]") -> None:
        try:
            while (packet := packets.get()) is not None:
                self._link.stream.sendall(packet)
        except OSError:
            # Who waits for the peer is told.
            pass

    def _ended(self) -> Ended:
        return Ended(f"rank {self.rank} is gone, or has left the group")


class Ranks:
    """All other ranks of a group, by two links each: for what all do in one order, and for single messages."""

    def __init__(
        self,
        rank: int,
        size: int,
        pool: str | os.PathLike[str] | None,
        tell: Callable[[int, str], None],
        ask: Callable[[int], str],
        timeout: float | None,
    ) -> None:
        """`tell` publishes the name of a rank, `ask` waits for that of another."""
        self.rank, self.size = rank, size
        self.endpoint = lend.Endpoint(pool)
        links: list[dict[int, Peer]] = [{}, {}]
        patience = 3600.0 if timeout is None else timeout
        with self.endpoint.listen(f"rank:{secrets.token_hex(12)}:{rank}") as listener:
            tell(rank, listener.name)
            for lower in range(rank):
                name = ask(lower)
                for kind in (0, 1):
                    try:
                        link = self.endpoint.open(name, patience=patience)
                    except rpc.NoService as error:
                        raise Ended(
                            f"rank {lower} is gone, or uses another pool: all ranks have to be on one machine and name one pool"
                        ) from error
                    link.stream.sendall(_HELLO.pack(rank, kind))
                    links[kind][lower] = Peer(lower, link, timeout)
            while len(links[0]) + len(links[1]) < 2 * (size - 1):
                link = listener.accept(patience)
                link.stream.settimeout(patience)
                hello = link.stream.recv(_HELLO.size, socket.MSG_WAITALL)
                other, kind = _HELLO.unpack(hello) if len(hello) == _HELLO.size else (rank, 2)
                if kind > 1 or not rank < other < size or other in links[kind]:
                    link.close()
                    continue
                links[kind][other] = Peer(other, link, timeout)
        #: For collectives, which all ranks run in one order.
        self.together = links[0]
        #: For messages between two ranks.
        self.single = links[1]

    def close(self) -> None:
        """Leaves the group."""
        for peer in (*self.together.values(), *self.single.values()):
            peer.close()
        self.endpoint.close()
