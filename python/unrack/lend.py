"""Passes buffers by reference: one process fills a buffer in the pool, and other processes read it in place.

    from unrack import lend

    # The owner.
    owner = lend.Endpoint()
    with owner.listen("numbers") as listener, listener.accept() as link:
        buffer = owner.buffer(8000)
        buffer.body[:] = bytes(8000)
        link.stream.sendall(link.lend(buffer).pack())

    # A reader, in another process.
    with lend.Endpoint().open("numbers") as link:
        reference = lend.Reference.unpack(link.stream.recv(lend.Reference.BYTES))
        body = link.receive(reference)

A link has a socket (`stream`), over which the two processes can use any protocol of their choice, for example to send references.
The bytes of a buffer do not pass through the socket: `body` is a view of the owner's memory. The view stays valid when the link is
closed and when the owner is killed. The owner gets the buffer back when the reader has dropped all views of it, and all objects
that use these views, such as NumPy arrays, Arrow buffers and tensors.

`unrack.arrow`, `unrack.dask` and `unrack.torch` are built on this module. An endpoint cannot open a link to itself, so a process
that is both ends of a link needs two endpoints.

A forked child has to connect for itself. If it uses an endpoint, link or buffer of its parent, `unrack.rpc.Invalid` is raised;
closing or dropping one does not affect the parent. The child can still read bytes that the parent received before the fork.
"""

import ctypes
import os
import socket
import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from unrack.closing import Closing
from unrack.rpc import native
from unrack.rpc.errors import Error
from unrack.rpc.native import Handle

__all__ = ["Buffer", "Endpoint", "Link", "Listener", "Reference"]

_REFERENCE = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Reference:
    """Name of a loan, which the owner of a buffer sends to the peer that it lends the buffer to.

    Only this peer can receive the loan, and only once. A buffer that is lent twice has two references, because a reference names
    the loan and not the buffer.
    """

    #: Place of the buffer and number of the loan, as the library packs them.
    offset: int
    size: int

    #: Length of a packed reference in bytes.
    BYTES: ClassVar[int] = _REFERENCE.size

    def pack(self) -> bytes:
        """Returns the reference as bytes, to be sent to the peer."""
        return _REFERENCE.pack(self.offset, self.size)

    @classmethod
    def unpack(cls, packed: bytes | bytearray | memoryview) -> Self:
        """Returns the reference that `pack` encoded."""
        return cls(*_REFERENCE.unpack(packed))


class _NoLink(Error):
    """No peer opened a link in time."""


class _Closable(Closing):
    """Base of objects that own a handle of the C library until they are closed."""

    _handle: Handle | None

    def close(self) -> None:
        """Closes this object. Objects that were created from it stay valid."""
        self._handle = None

    @property
    def is_inherited(self) -> bool:
        """Whether the parent process created this object before a fork, so that this process cannot use it."""
        return self._handle is not None and self._handle.is_inherited

    def check_process(self) -> None:
        """Checks that this process can use the object.

        Raises `unrack.rpc.Invalid` if the parent process created it before a fork, and `ValueError` if it is closed.
        """
        self._open().check_process()

    def _open(self) -> Handle:
        if self._handle is None:
            raise ValueError(f"the {type(self).__name__.lower()} is closed")
        return self._handle


class Buffer(_Closable):
    """A buffer of this process: the process fills it through `body`, then lends it. Readers keep it after it is closed."""

    def __init__(self, handle: Handle, size: int) -> None:
        self._handle = handle
        self.size = size
        base = native.get("buffer_bytes", handle.pointer)
        #: The buffer's bytes. The owner may write them until it lends the buffer, and read them until it closes the buffer. They are
        #: not zeroed: at first they hold data of an earlier use.
        self.body: memoryview = native.view(base, size, handle)[1]

    def close(self) -> None:
        """Returns the buffer to the pool, once no reader has it and no slice or array of its body is left."""
        super().close()
        native.release(self.body)


class Endpoint(_Closable):
    """A connection to a pool, over which a process passes buffers. Threads may share it.

    `pool` is the path of the pool's socket; None selects the pool of the current user.
    """

    def __init__(self, pool: str | os.PathLike[str] | None = None) -> None:
        place = native.encoded(pool)
        self._handle = native.aside(lambda: Handle("endpoint", "endpoint_connect", place))

    def listen(self, name: str) -> "Listener":
        """Registers a name in the pool, and returns a listener that accepts the links which peers open by that name."""
        arguments = self._open().pointer, native.encoded(name)
        return Listener(native.aside(lambda: Handle("listener", "endpoint_listen", *arguments)), name)

    def open(self, name: str, *, patience: float = 5.0) -> "Link":
        """Opens a link to the process that listens under a name. That process has `patience` seconds to accept the link."""
        arguments = self._open().pointer, native.encoded(name), native.nanoseconds(patience)
        return Link(native.aside(lambda: Handle("link", "endpoint_open", *arguments)))

    def buffer(self, size: int, *, writable: bool = False) -> Buffer:
        """Allocates a buffer of `size` bytes in the pool. It can be lent over any number of links, to readers that cannot write it.

        A `writable` buffer can be lent only once, and its reader may write it until it returns the buffer. Each peer that was
        lent a writable buffer can write all writable buffers of this endpoint, so these peers have to trust each other.
        """
        arguments = self._open().pointer, native.length(size), writable
        return Buffer(Handle("buffer", "endpoint_buffer", *arguments), size)


class Listener(_Closable):
    """Accepts links under a name. A thread of the library accepts them, so that a peer does not wait until this program is ready."""

    def __init__(self, handle: Handle, name: str) -> None:
        self._handle = handle
        #: The name under which this listener accepts links.
        self.name = name

    def accept(self, timeout: float | None = None) -> "Link":
        """Returns the next link that a peer opens.

        Waits up to `timeout` seconds, then raises `TimeoutError`. None waits without a limit, and 0 does not wait.
        """
        link = self.try_accept(timeout)
        if link is None:
            raise TimeoutError(f"no peer has opened a link within {timeout} s")
        return link

    def try_accept(self, timeout: float | None = 0) -> "Link | None":
        """Returns the next link, or None if no peer opens one within `timeout` seconds."""

        def accept(limit: int) -> Link:
            handle = Handle("link", "listener_accept", self._open().pointer, limit)
            if not handle.pointer:
                raise _NoLink("no peer has opened a link")
            return Link(handle)

        try:
            return native.in_slices(accept, timeout, _NoLink)
        except _NoLink:
            return None

    def fileno(self) -> int:
        """Returns a descriptor for `selectors` and event loops: it is readable when a link may be waiting. Do not read from it."""
        return int(native.get("listener_descriptor", self._open().pointer))


class Link(_Closable):
    """A connection to a peer: a socket, over which either side may also lend buffers to the other. Threads may share it."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        descriptor = ctypes.c_int()
        native.run("link_stream", handle.pointer, ctypes.byref(descriptor))
        self._stream = socket.socket(fileno=descriptor.value)

    @property
    def stream(self) -> socket.socket:
        """The byte stream to the peer. It ends when the peer has closed the link or has ended.

        Raises `unrack.rpc.Invalid` in a forked child, because the child shares the socket with its parent and would take bytes
        that are meant for the parent.
        """
        if self._handle is not None:
            self._handle.check_process()
        return self._stream

    @property
    def process(self) -> int:
        """Process number of the peer, as the kernel reports it."""
        return int(native.get("link_process", self._open().pointer))

    @property
    def lent(self) -> int:
        """Number of buffers that are lent to the peer over this link."""
        return int(native.get("link_lent", self._open().pointer))

    def lend(self, buffer: Buffer) -> Reference:
        """Lends a buffer to the peer. Returns the reference, which the caller has to send to the peer.

        The caller must not write to the buffer after this call.
        """
        offset = ctypes.c_uint64()
        native.run("link_lend", self._open().pointer, buffer._open().pointer, ctypes.byref(offset))
        return Reference(offset.value, buffer.size)

    def receive(self, reference: Reference, *, writable: bool = False) -> memoryview:
        """Returns a view of the bytes of a buffer that the peer has lent, in place. The loan ends when the last view is dropped.

        The view is read-only. With `writable`, this process may also write to it; the peer must have allocated the buffer as
        writable. The peer has the memory mapped too and can change it at any time: if the peer is not trusted, copy the bytes
        first, then check and use the copy.

        Raises `rpc.ProtocolError` if the reference was received before, or belongs to another link.
        """
        arguments = self._open().pointer, reference.offset, native.length(reference.size), writable
        loan = Handle("loan", "link_receive", *arguments)
        body = native.view(native.get("loan_bytes", loan.pointer), reference.size, loan)[1]
        return body if writable else body.toreadonly()

    def close(self) -> None:
        """Closes the socket. Buffers that this process or the peer has received over the link stay valid."""
        super().close()
        self._stream.close()
