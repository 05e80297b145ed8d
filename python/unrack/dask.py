"""Passes messages of Dask by reference: communication backend `unrack://` for `distributed`.

    from distributed import Client, LocalCluster

    with LocalCluster(protocol="unrack") as cluster, Client(cluster) as client:
        ...

Only the address differs from `tcp://`. The sender copies each frame of 128 KiB or more once, into the pool, and the receiver uses
the frame in place: its arrays lie in the pool, and are writable, as with `tcp://`. The sender gets the memory back when the
receiver has dropped the last object that uses it. Smaller frames go over a Unix socket, and so do frames for which the pool has
no room.

All processes of a cluster must run on one machine and use the same pool, which `unrack pool serve` serves. Without a setting this
is the pool of the current user; the Dask setting `distributed.comm.unrack.pool` (`DASK_DISTRIBUTED__COMM__UNRACK__POOL`) names the
socket of another one. Addresses have a host and a port, as with `tcp://`, but the port is only a name in the pool: no socket
listens on the network. The processes of a cluster must trust each other, as Dask requires anyway.

If the package is installed, Dask finds this backend by itself; otherwise import this module in every process.
"""

# Pyright takes methods that distributed does not annotate for methods that return None.
# pyright: reportIncompatibleMethodOverride=false

import asyncio
import contextlib
import errno
import logging
import os
import random
import socket
import struct
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import dask.config
from distributed.comm.addressing import parse_host_port, unparse_host_port
from distributed.comm.core import BaseListener, Comm, CommClosedError, Connector, FatalCommClosedError
from distributed.comm.registry import Backend, backends
from distributed.comm.utils import OFFLOAD_THRESHOLD, ensure_concrete_host, from_frames, to_frames
from distributed.utils import ensure_memoryview, get_ip, offload

from unrack import lend, rpc
from unrack.rpc.native import copy

__all__ = ["UnrackBackend", "UnrackComm", "connected"]

PREFIX = "unrack://"
#: Minimum length in bytes of a frame that passes by reference. A reference costs as much as two more copies of this length (measured).
LEAST = 128 << 10

# Header of a message: the number of its frames. Entry of a frame: its size, and the offset of its buffer.
_MESSAGE = struct.Struct("<Q")
_FRAME = struct.Struct("<QQ")
# Stands in place of an offset if the frame itself follows on the socket.
_INLINE = 2**64 - 1
_MOST_FRAMES = 1 << 24
# Split size that no frame reaches: a reference works for any length, so frames need not be split.
_WHOLE = 1 << 62
# Size of the read-ahead buffer in bytes.
_AHEAD = 64 << 10
# Seconds between checks that a manager serves the pool, and the number of failed checks after which the pool counts as gone.
_LOOK = 5.0
_MOST_MISSED = 2
_LOGGER = logging.getLogger("distributed.comm.unrack")
# Maximum number of random ports that a listener tries.
_TRIES = 100


class _Endpoints:
    """The two connections of this process to a pool: `far` to listen and `near` to connect.

    Two are needed because a process may be both ends of a comm, and an endpoint cannot open a link to itself.
    """

    def __init__(self, pool: str | None) -> None:
        self.near = lend.Endpoint(pool)
        self.far = lend.Endpoint(pool)


_endpoints: weakref.WeakValueDictionary[tuple[int, str | None], _Endpoints] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _pool() -> str | None:
    pool = dask.config.get("distributed.comm.unrack.pool", default=None)
    return None if pool is None else os.fspath(pool)


def _connected(pool: str | None, *, anew: bool = False) -> _Endpoints:
    """Returns this process's endpoints at a pool, which last as long as a comm or a listener uses them.

    With `anew`, existing endpoints are replaced. Raises `FatalCommClosedError` if no manager serves the pool.
    """
    with _lock:
        endpoints = None if anew else _endpoints.get((os.getpid(), pool))
        if endpoints is None:
            try:
                endpoints = _Endpoints(pool)
            except rpc.NoPool as error:
                raise FatalCommClosedError(
                    f"{error.cause}; all processes of a cluster name its socket by the setting distributed.comm.unrack.pool of "
                    "Dask (the user's own pool without it), or use tcp://"
                ) from error
            _endpoints[os.getpid(), pool] = endpoints
        return endpoints


def connected() -> None:
    """Checks that a manager serves the pool that Dask's setting names.

    Raises `FatalCommClosedError` if not; its text explains how to correct that.
    """
    _connected(_pool())


class _Stream:
    """The socket of a link, as an asynchronous byte stream with a read-ahead buffer."""

    def __init__(self, link: lend.Link) -> None:
        self._link = link
        self._socket = link.stream
        self._socket.setblocking(False)
        self._ahead = bytearray(_AHEAD)
        self._start = self._end = 0

    async def fill(self, target: memoryview) -> None:
        """Reads from the socket until `target` is full. Raises `EOFError` if the stream ends before."""
        loop = asyncio.get_running_loop()
        while target:
            if self._start < self._end:
                count = min(len(target), self._end - self._start)
                target[:count] = memoryview(self._ahead)[self._start : self._start + count]
                self._start += count
            elif len(target) >= _AHEAD:
                count = await loop.sock_recv_into(self._socket, target)
                if count == 0:
                    raise EOFError
            else:
                self._start, self._end = 0, await loop.sock_recv_into(self._socket, self._ahead)
                if self._end == 0:
                    raise EOFError
                count = 0
            target = target[count:]

    async def read(self, size: int) -> bytearray:
        body = bytearray(size)
        await self.fill(memoryview(body))
        return body

    async def write(self, parts: list[bytes | memoryview]) -> None:
        """Sends all parts in order. Consecutive short parts are joined, so that they take one system call."""
        loop = asyncio.get_running_loop()
        together: list[bytes | memoryview] = []
        for part in parts:
            if len(part) < _AHEAD:
                together.append(part)
                continue
            await loop.sock_sendall(self._socket, b"".join(together))
            await loop.sock_sendall(self._socket, part)
            together = []
        await loop.sock_sendall(self._socket, b"".join(together))

    def ended(self) -> bool:
        """Returns whether the peer has ended the stream and no unread bytes are left."""
        if self._start < self._end:
            return False
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def end(self) -> None:
        """Shuts the socket down in both directions. A forked child does not shut down a socket of its parent."""
        if self._link.is_inherited:
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class UnrackComm(Comm):
    """A Dask comm: a connection of two processes, whose large frames pass by reference."""

    def __init__(
        self,
        link: lend.Link,
        endpoints: _Endpoints,
        endpoint: lend.Endpoint,
        addresses: tuple[str, str],
        deserialize: bool = True,
    ) -> None:
        super().__init__(deserialize=deserialize)
        self._local_addr, self._peer_addr = addresses
        self._link: lend.Link | None = link
        # Held so that the endpoints last as long as an open comm or listener uses them.
        self._endpoints: _Endpoints | None = endpoints
        self._endpoint: lend.Endpoint | None = endpoint
        self._stream = _Stream(link)
        # Number of reads and writes in flight, which use the socket.
        self._users = 0

    @property
    def local_address(self) -> str:
        return self._local_addr

    @property
    def peer_address(self) -> str:
        return self._peer_addr

    @property
    def same_host(self) -> bool:
        return True

    async def read(self, deserializers: Any = None) -> Any:
        link = self._open()
        try:
            with self._using():
                frames = await self._read_frames(link)
        except (OSError, EOFError, rpc.Error) as error:
            self.abort()
            raise CommClosedError(f"in {self}: {_said(error)}") from error
        except BaseException:
            # Part of a message may have been read.
            self.abort()
            raise
        try:
            return await from_frames(
                frames,
                deserialize=self.deserialize,
                deserializers=deserializers,
                allow_offload=self.allow_offload,
            )
        except EOFError as error:
            self.abort()
            raise CommClosedError("aborted stream on truncated data") from error

    async def write(self, msg: Any, serializers: Any = None, on_error: str | None = "message") -> int:
        self._open()
        context = {"sender": self.local_info, "recipient": self.remote_info, **self.handshake_options}
        frames = await to_frames(
            msg,
            allow_offload=self.allow_offload,
            serializers=serializers,
            on_error=on_error,
            context=context,
            frame_split_size=_WHOLE,
        )
        views = [ensure_memoryview(frame) for frame in frames]
        link = self._open()
        try:
            with self._using():
                await self._write_frames(link, views)
        except (OSError, EOFError, rpc.Error) as error:
            self.abort()
            raise CommClosedError(f"in {self}: {_said(error)}") from error
        except BaseException:
            # Part of the message may have been written.
            self.abort()
            raise
        return sum(view.nbytes for view in views)

    async def close(self) -> None:
        # No flush is needed: all written data is in the kernel's socket buffer already.
        self.abort()

    def abort(self) -> None:
        if self._link is not None:
            self._stream.end()
            if self._users == 0:
                self._link.close()
            self._link = self._endpoints = self._endpoint = None

    def closed(self) -> bool:
        return self._link is None or (self._users == 0 and self._stream.ended())

    def _open(self) -> lend.Link:
        if self._link is None:
            raise CommClosedError(f"in {self}: it is closed")
        if self._link.is_inherited:
            raise CommClosedError(
                f"in {self}: the parent process made this connection before a fork: connect again"
            )
        return self._link

    @contextlib.contextmanager
    def _using(self) -> Any:
        """Keeps the socket's descriptor open while the event loop waits for it."""
        link, self._users = self._open(), self._users + 1
        try:
            yield
        finally:
            self._users -= 1
            if self._link is None and self._users == 0:
                link.close()

    async def _write_frames(self, link: lend.Link, frames: list[memoryview]) -> None:
        places: list[int] = []
        parts: list[bytes | memoryview] = []
        for frame in frames:
            place = _INLINE
            if frame.nbytes >= LEAST:
                place = await self._lend(link, frame)
            if place == _INLINE:
                parts.append(frame)
            places.append(place)
        table = b"".join(
            _FRAME.pack(frame.nbytes, place) for frame, place in zip(frames, places, strict=True)
        )
        await self._stream.write([_MESSAGE.pack(len(frames)) + table, *parts])

    async def _lend(self, link: lend.Link, frame: memoryview) -> int:
        """Copies a frame into the pool and lends it to the peer. Returns its offset, or `_INLINE` if that is not possible."""
        if self._endpoint is None:
            raise EOFError
        try:
            buffer = self._endpoint.buffer(frame.nbytes, writable=True)
        except (rpc.PoolError, rpc.NoPool):
            # The pool is full, this process has reached its limit, or the manager is gone.
            return _INLINE
        with buffer:
            if OFFLOAD_THRESHOLD and self.allow_offload and frame.nbytes > OFFLOAD_THRESHOLD:
                await offload(copy, buffer.body, frame)
            else:
                copy(buffer.body, frame)
            try:
                return link.lend(buffer).offset
            except (rpc.PoolError, rpc.NoPool):
                # The manager is gone, or the peer has mapped the maximum number of segments.
                return _INLINE

    async def _read_frames(self, link: lend.Link) -> list[memoryview]:
        (count,) = _MESSAGE.unpack(await self._stream.read(_MESSAGE.size))
        if count > _MOST_FRAMES:
            raise rpc.ProtocolError(f"a message of {count} frames")
        table = list(_FRAME.iter_unpack(await self._stream.read(count * _FRAME.size)))
        # Receive all loans before reading inline frames: a later error then returns them, whereas a loan that was never received
        # would stay lent until the link is closed.
        frames = [
            None if place == _INLINE else link.receive(lend.Reference(place, size), writable=True)
            for size, place in table
        ]
        small = memoryview(bytearray(sum(size for size, place in table if place == _INLINE and size < LEAST)))
        whole: list[memoryview] = []
        for (size, _), frame in zip(table, frames, strict=True):
            if frame is None and size < LEAST:
                frame, small = small[:size], small[size:]
                await self._stream.fill(frame)
            elif frame is None:
                frame = memoryview(bytearray(size))
                await self._stream.fill(frame)
            whole.append(frame)
        return whole


class UnrackConnector(Connector):
    """Opens comms to listeners that use the same pool."""

    async def connect(self, address: str, deserialize: bool = True, **arguments: Any) -> UnrackComm:
        _check_encryption(address, arguments)
        host, port = parse_host_port(address)
        pool = _pool()
        try:
            endpoints, link = await asyncio.to_thread(_open_link, pool, port)
        except rpc.NoService as error:
            at = "the user's own pool" if pool is None else f"the pool at {pool}"
            raise CommClosedError(
                f"no process listens at {PREFIX}{address} in {at}: {PREFIX} reaches processes of this machine that use the same pool"
            ) from error
        except rpc.Error as error:
            raise CommClosedError(f"cannot connect to {PREFIX}{address}: {error}") from error
        local = PREFIX + unparse_host_port(host, os.getpid())
        return UnrackComm(link, endpoints, endpoints.near, (local, PREFIX + address), deserialize)


def _open_link(pool: str | None, port: int) -> tuple[_Endpoints, lend.Link]:
    endpoints = _connected(pool)
    try:
        return endpoints, endpoints.near.open(_name(port))
    except rpc.NoPool:
        # A new manager may have replaced the one that these endpoints are connected to.
        endpoints = _connected(pool, anew=True)
        return endpoints, endpoints.near.open(_name(port))


class UnrackListener(BaseListener):
    """Accepts comms at a port, which is a name in the pool."""

    # Read by Dask's workers.
    prefix = PREFIX

    def __init__(
        self,
        address: str,
        comm_handler: Callable[[Comm], Awaitable[None]],
        deserialize: bool = True,
        allow_offload: bool = True,
        default_host: str | None = None,
        default_port: int = 0,
        **arguments: Any,
    ) -> None:
        super().__init__()
        _check_encryption(address, arguments)
        self._host, self._asked = parse_host_port(address, default_port)
        self._default_host = default_host
        self._handler = comm_handler
        self._deserialize = deserialize
        self._allow_offload = allow_offload
        self._listener: lend.Listener | None = None
        self._endpoints: _Endpoints | None = None
        self._port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._comms: weakref.WeakSet[UnrackComm] = weakref.WeakSet()

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        listening = await asyncio.to_thread(_listen, _pool(), self._asked)
        self._endpoints, listener, self._port = listening
        self._listener = listener
        self._loop.add_reader(listener, self._accept)
        self._watching = self._loop.create_task(self._watch())

    def stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            self._watching.cancel()
            self._loop.remove_reader(listener)
            listener.close()
            self._endpoints = None
            self.abort_handshaking_comms()

    @property
    def listen_address(self) -> str:
        return PREFIX + unparse_host_port(self._host, self._started())

    @property
    def contact_address(self) -> str:
        return PREFIX + unparse_host_port(self._contact_host(), self._started())

    def get_host_port(self) -> tuple[str, int]:
        return self._host, self._started()

    def _contact_host(self) -> str:
        return str(ensure_concrete_host(self._host, default_host=self._default_host))

    def _started(self) -> int:
        if not self._port:
            raise ValueError("invalid operation on a listener that was not started")
        return self._port

    def _accept(self) -> None:
        while self._listener is not None:
            try:
                link = self._listener.try_accept()
            except rpc.Error:
                # This manager is gone for good. `_watch` detects that too, and ends the comms.
                self._loop.remove_reader(self._listener)
                return
            if link is None:
                return
            task = self._loop.create_task(self._handle(link))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _watch(self) -> None:
        """Ends the comms of this listener when no manager serves the pool any more.

        The open comms would continue to work, but no process could open a new one, so a cluster that needs another connection
        would retry forever. Ending the comms makes the cluster fail, as after the loss of a network. If a new manager serves the
        pool in time, the comms are kept.
        """
        missed = 0
        while self._endpoints is not None and missed < _MOST_MISSED:
            await asyncio.sleep(_LOOK)
            missed = 0 if await asyncio.to_thread(self._is_served) else missed + 1
        if self._endpoints is not None:
            _LOGGER.error(
                "the manager of the pool has ended: the listener at %s closes its comms", self.listen_address
            )
            for comm in list(self._comms):
                comm.abort()

    def _is_served(self) -> bool:
        """Returns whether a manager serves the pool: a manager that is alive answers a request for an unused name with an error.

        If the listener was stopped, returns True without a request.
        """
        endpoints = self._endpoints
        try:
            if endpoints is not None:
                endpoints.near.open(_name(0), patience=1).close()
        except rpc.NoPool:
            return False
        except rpc.Error:
            pass
        return True

    async def _handle(self, link: lend.Link) -> None:
        endpoints = self._endpoints
        if endpoints is None:
            # The listener was stopped after it accepted this link.
            link.close()
            return
        peer = PREFIX + unparse_host_port(self._contact_host(), link.process)
        addresses = self.contact_address, peer
        comm = UnrackComm(link, endpoints, endpoints.far, addresses, self._deserialize)
        comm.allow_offload = self._allow_offload
        self._comms.add(comm)
        try:
            await self.on_connection(comm)
        except CommClosedError:
            return
        await self._handler(comm)


def _listen(pool: str | None, asked: int) -> tuple[_Endpoints, lend.Listener, int]:
    endpoints, refused = _connected(pool), None
    for tried in range(_TRIES):
        port = asked or random.randint(1 << 10, (1 << 16) - 1)
        try:
            return endpoints, endpoints.far.listen(_name(port)), port
        except rpc.NoPool:
            if tried > 0:
                raise
            endpoints = _connected(pool, anew=True)
        except rpc.PoolError as error:
            if asked:
                raise OSError(
                    errno.EADDRINUSE, f"cannot listen at port {port} of the pool: {error}"
                ) from error
            refused = error
    raise OSError(errno.EADDRINUSE, f"cannot listen in the pool, {_TRIES} ports were tried: {refused}")


class UnrackBackend(Backend):
    """The backend of `unrack://`, which Dask finds by the entry point `distributed.comm.backends`."""

    def get_connector(self) -> UnrackConnector:
        return UnrackConnector()

    def get_listener(
        self, loc: str, handle_comm: Any, deserialize: bool, **connection_args: Any
    ) -> UnrackListener:
        return UnrackListener(loc, handle_comm, deserialize, **connection_args)

    def get_address_host(self, loc: str) -> str:
        return str(parse_host_port(loc, 0)[0])

    def get_address_host_port(self, loc: str) -> tuple[str, int]:
        host, port = parse_host_port(loc, 0)
        return host, port

    def resolve_address(self, loc: str) -> str:
        return str(unparse_host_port(*parse_host_port(loc)))

    def get_local_address_for(self, loc: str) -> str:
        return str(parse_host_port(loc, 0)[0] or get_ip())


def _name(port: int) -> str:
    return f"dask:{port}"


def _check_encryption(address: str, arguments: dict[str, Any]) -> None:
    if arguments.get("require_encryption"):
        raise RuntimeError(
            f"encryption required by Dask configuration, refusing communication from/to {PREFIX + address!r}: memory of one "
            "machine is shared, not encrypted"
        )


def _said(error: BaseException) -> str:
    return "the peer has closed the connection, or has ended" if isinstance(error, EOFError) else str(error)


backends.setdefault("unrack", UnrackBackend())
