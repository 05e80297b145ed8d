"""Buffers by reference: one process fills a buffer of the pool, others read it where it lies.

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

A link has a socket (`stream`) for whatever protocol its user has; buffers pass beside it. `body` is a view of the owner's
bytes. It stays good when the link is closed and when the owner is killed, and the owner has the buffer back when the last view
of it, and all that was made of them, is gone: arrays of NumPy, buffers of Arrow, tensors.

`unrack.arrow`, `unrack.dask` and `unrack.torch` are built on it. An endpoint has no link to itself: a process that has both ends
of one has two endpoints.

A child by fork must connect for itself: what it has from its parent is refused (`unrack.rpc.Invalid`), and closing or
forgetting it does not affect the parent. Bytes that the parent received can still be read.
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
    """What the owner of a buffer tells the peer it is lent to: good once, and for this peer only. It names the loan, not only the buffer:
    a buffer that is lent twice has two references."""

    #: Place of the buffer and number of the loan, as the library packs them.
    offset: int
    size: int

    #: Length of a packed reference.
    BYTES: ClassVar[int] = _REFERENCE.size

    def pack(self) -> bytes:
        """Gives the bytes to send."""
        return _REFERENCE.pack(self.offset, self.size)

    @classmethod
    def unpack(cls, packed: bytes | bytearray | memoryview) -> Self:
        """Reads what `pack` gave."""
        return cls(*_REFERENCE.unpack(packed))


class _NoLink(Error):
    """No peer has opened a link in time."""


class _Closable(Closing):
    """Holder of a handle until it is closed."""

    _handle: Handle | None

    def close(self) -> None:
        """Gives it up. What was made of it stays good."""
        self._handle = None

    @property
    def is_inherited(self) -> bool:
        """Whether a parent process made it, before a fork."""
        return self._handle is not None and self._handle.is_inherited

    def check_process(self) -> None:
        """Raises `unrack.rpc.Invalid` if a parent process made it, and `ValueError` if it is closed."""
        self._open().check_process()

    def _open(self) -> Handle:
        if self._handle is None:
            raise ValueError(f"the {type(self).__name__.lower()} is closed")
        return self._handle


class Buffer(_Closable):
    """A buffer of this process, to be filled by `body` and then lent. Readers keep it when it is closed."""

    def __init__(self, handle: Handle, size: int) -> None:
        self._handle = handle
        self.size = size
        base = native.get("buffer_bytes", handle.pointer)
        #: The bytes: to be written until the buffer is lent, and read as long as it is there. They hold what was there before.
        self.body: memoryview = native.view(base, size, handle)[1]

    def close(self) -> None:
        """Gives the buffer back, as soon as no reader has it and nothing is left that was made of its body."""
        super().close()
        native.release(self.body)


class Endpoint(_Closable):
    """A connection to the pool at a socket (None: the user's own), to pass buffers. Threads may share it."""

    def __init__(self, pool: str | os.PathLike[str] | None = None) -> None:
        place = native.encoded(pool)
        self._handle = native.aside(lambda: Handle("endpoint", "endpoint_connect", place))

    def listen(self, name: str) -> "Listener":
        """Accepts links under a name."""
        arguments = self._open().pointer, native.encoded(name)
        return Listener(native.aside(lambda: Handle("listener", "endpoint_listen", *arguments)), name)

    def open(self, name: str, *, patience: float = 5.0) -> "Link":
        """Opens a link to who listens under a name, which has `patience` seconds to accept it."""
        arguments = self._open().pointer, native.encoded(name), native.nanoseconds(patience)
        return Link(native.aside(lambda: Handle("link", "endpoint_open", *arguments)))

    def buffer(self, size: int, *, writable: bool = False) -> Buffer:
        """Takes a buffer that any number of links can lend, to readers that cannot write it.

        One that is `writable` is lent once, and its reader may write it until it returns it. All peers that were lent such a buffer
        can write all of them: they have to trust each other.
        """
        arguments = self._open().pointer, native.length(size), writable
        return Buffer(Handle("buffer", "endpoint_buffer", *arguments), size)


class Listener(_Closable):
    """A name under which links are accepted: by a thread of the library, so that no peer waits for this program."""

    def __init__(self, handle: Handle, name: str) -> None:
        self._handle = handle
        #: The name.
        self.name = name

    def accept(self, timeout: float | None = None) -> "Link":
        """Gives the next link: waits for one up to `timeout` seconds (`TimeoutError`), or for ever. 0 looks once."""
        link = self.try_accept(timeout)
        if link is None:
            raise TimeoutError(f"no peer has opened a link within {timeout} s")
        return link

    def try_accept(self, timeout: float | None = 0) -> "Link | None":
        """Gives the next link, if there is one within `timeout` seconds."""

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
        """Gives a descriptor that is readable when a link may be there, for `selectors` and event loops. It is not to be read."""
        return int(native.get("listener_descriptor", self._open().pointer))


class Link(_Closable):
    """A connection to a peer: a socket, and the buffers that both lend each other. Threads may share it."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        descriptor = ctypes.c_int()
        native.run("link_stream", handle.pointer, ctypes.byref(descriptor))
        self._stream = socket.socket(fileno=descriptor.value)

    @property
    def stream(self) -> socket.socket:
        """The byte stream to the peer. Its end says that the peer has closed the link, or is gone.

        A child by fork has the same socket, and would take its parent's bytes: it is refused there (`unrack.rpc.Invalid`).
        """
        if self._handle is not None:
            self._handle.check_process()
        return self._stream

    @property
    def process(self) -> int:
        """The process at the other side, as the kernel knows it."""
        return int(native.get("link_process", self._open().pointer))

    @property
    def lent(self) -> int:
        """How many buffers the peer has."""
        return int(native.get("link_lent", self._open().pointer))

    def lend(self, buffer: Buffer) -> Reference:
        """Lends the peer a buffer, which is not to be written any more. Gives what the peer has to be told."""
        offset = ctypes.c_uint64()
        native.run("link_lend", self._open().pointer, buffer._open().pointer, ctypes.byref(offset))
        return Reference(offset.value, buffer.size)

    def receive(self, reference: Reference, *, writable: bool = False) -> memoryview:
        """Gives the bytes of a buffer that the peer has lent, where they are. They are returned with the last view. A reference that was
        received before, or by another link, is refused (`rpc.ProtocolError`).

        `writable` is for what the peer took as such, and this process may write. Otherwise the view is to be read
        only. The peer has this memory, too: of one that is not trusted, copy what is to be checked, and use the copy.
        """
        arguments = self._open().pointer, reference.offset, native.length(reference.size), writable
        loan = Handle("loan", "link_receive", *arguments)
        body = native.view(native.get("loan_bytes", loan.pointer), reference.size, loan)[1]
        return body if writable else body.toreadonly()

    def close(self) -> None:
        """Closes the socket. What was received stays, and so does what the peer has."""
        super().close()
        self._stream.close()
