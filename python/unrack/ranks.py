"""Links between all ranks of a group of processes, which pass tagged messages through the pool.

`unrack.torch` is built on this module. Short messages go over a link's socket. The sender writes a longer message once, into a
buffer of the pool, and each rank that it is posted to reads it in place.
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

#: Maximum length in bytes of a message that is copied over the socket, because up to this length a reference costs more (measured).
SHORT = 128 << 10
# Time for which a receiver polls before it sleeps.
_AWAKE_NS = 50_000
# Tag, offset of the buffer, length in bytes.
_HEADER = struct.Struct("<qQQ")
_INLINE = 2**64 - 1
# First message of a link: the rank of its sender, and which of the two links of this pair it is.
_HELLO = struct.Struct("<II")

#: Bytes of a message: a view of the pool's memory, or a copy.
Message = memoryview


class Ended(RuntimeError):
    """Another rank has ended, has left the group, or uses another pool."""


class Peer:
    """A link to another rank. Several threads may take messages. Messages arrive in order within a tag, but not across tags."""

    def __init__(self, rank: int, link: lend.Link, timeout: float | None) -> None:
        self.rank = rank
        self._link = link
        self._timeout = timeout
        link.stream.settimeout(timeout)
        # Non-blocking duplicate of the same socket.
        self._at_once = link.stream.dup()
        self._at_once.settimeout(0)
        self._came: dict[int, collections.deque[Message]] = {}
        self._changed = threading.Condition()
        self._reading = False
        self._sending = threading.Lock()
        self._late: queue.SimpleQueue[bytes | None] | None = None

    def post(self, tag: int, message: lend.Buffer | bytes | memoryview) -> None:
        """Sends a message without waiting for the peer. A filled buffer is lent to the peer; bytes are copied.

        Raises `Ended` if the peer is gone.
        """
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
        """Waits for the next message with a tag, and returns it read-only. Its memory is returned when the last view is dropped.

        Raises `Ended` if the peer is gone, and `TimeoutError` if it sends no message in time.
        """
        self._link.check_process()
        while True:
            with self._changed:
                came = self._came.get(tag)
                if came:
                    return came.popleft()
                if self._reading:
                    # Another thread reads the socket. It notifies after each message.
                    self._changed.wait()
                    continue
                self._reading = True
            self._read_one()

    def look(self, tag: int) -> bool:
        """Returns whether a message with a tag has arrived. Reads the messages that are in the socket, but does not wait for more."""
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
        """Returns whether a message with this tag has arrived or may be in the socket, so that `take` is unlikely to wait long."""
        with self._changed:
            if self._came.get(tag):
                return True
        return bool(select.select([self._link.stream], [], [], 0)[0])

    def fileno(self) -> int:
        """Returns a descriptor that is readable while the socket holds an unread message."""
        return self._link.stream.fileno()

    def close(self) -> None:
        """Closes the link. Messages that were taken stay valid. A forked child does not close a link of its parent."""
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
        """Reads the next message from the socket. Only the thread that has set `_reading` may call this."""
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
                raise Ended(f"rank {self.rank} violated the protocol")
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
            raise TimeoutError(f"rank {self.rank} sent no message within {self._timeout} s") from error
        except OSError as error:
            raise self._ended() from error
        return received

    def _soon(self, left: memoryview) -> int | None:
        """Polls for as long as a sleep and a wakeup would take. Returns the number of bytes received, or None if no bytes arrive."""
        end = time.perf_counter_ns() + _AWAKE_NS
        while True:
            try:
                return self._at_once.recv_into(left)
            except BlockingIOError:
                if time.perf_counter_ns() > end:
                    return None
                os.sched_yield()

    def _send(self, packet: bytes) -> None:
        """Sends a packet. If the socket is full, a thread sends the rest, because two ranks may both send before they receive."""
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
            # A caller that waits for this peer gets the error.
            pass

    def _ended(self) -> Ended:
        return Ended(f"rank {self.rank} has ended, or has left the group")


class Ranks:
    """The links to all other ranks of a group. Each rank has two: one for collectives, one for point-to-point messages."""

    def __init__(
        self,
        rank: int,
        size: int,
        pool: str | os.PathLike[str] | None,
        tell: Callable[[int, str], None],
        ask: Callable[[int], str],
        timeout: float | None,
    ) -> None:
        """Connects to all other ranks.

        Args:
            rank: Number of this rank.
            size: Number of ranks in the group.
            pool: Path of the pool's socket; None selects the pool of the current user.
            tell: Publishes the name under which a rank listens.
            ask: Waits for the name that another rank has published, and returns it.
            timeout: Seconds to wait for another rank; None sets a limit of one hour for connecting, and none for messages.
        """
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
                            f"rank {lower} has ended, or uses another pool: all ranks must run on one machine and use one pool"
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
        #: Links for collectives, which all ranks run in the same order.
        self.together = links[0]
        #: Links for messages between two ranks.
        self.single = links[1]

    def close(self) -> None:
        """Leaves the group: closes all links and the connection to the pool."""
        for peer in (*self.together.values(), *self.single.values()):
            peer.close()
        self.endpoint.close()
