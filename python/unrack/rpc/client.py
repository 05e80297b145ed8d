"""The side that calls."""

import ctypes
import os
import threading
from types import TracebackType
from typing import Self

from unrack.rpc import native
from unrack.rpc.native import Handle, Waiting


class Client:
    """A connection to a service, which threads may share. See `connect`."""

    def __init__(self, handle: Handle) -> None:
        self._handle: Handle | None = handle

    def call(self, method: str, size: int, room: int | None = None) -> "Call":
        """A request of `size` bytes to be written, which may be answered by `room` bytes: as many if it is None."""
        room = size if room is None else room
        if self._handle is None:
            raise ValueError("the client is closed")
        if size < 0 or room < 0:
            raise ValueError(f"a message of {min(size, room)} bytes")
        call = Handle("call", "call_new", self._handle.pointer, size, room)
        return Call(call, method)

    def close(self) -> None:
        """Calls that are under way go on."""
        self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


class Call:
    """A call: a request that is written, then under way, then an answer that is read.

    Views of its messages are released at the end of its `with` block: to use one later is a ValueError. Slices of them
    and NumPy arrays stay good, and keep the message's memory in the pool, until they are gone themselves.
    """

    def __init__(self, handle: Handle, method: str) -> None:
        self._handle: Handle | None = handle
        self._method = native.encoded(method)
        self._busy = threading.Lock()
        self._answer: memoryview | None = None
        size = ctypes.c_size_t()
        base = native.get("call_request", handle.pointer, ctypes.byref(size))
        #: The request's bytes, to be written before it is sent. They hold what was there before.
        self.body: memoryview = native.view(base, size.value, handle)[1]
        self._sent = False

    def start(self) -> None:
        """Sends the request, for an answer that is asked for later. Its body is not to be used any more."""
        self._exclusive("call_start", self._method)
        self._sent = True
        _release(self.body)

    def send(self) -> None:
        """Sends the request, which nobody answers. The call is over then."""
        self._exclusive("call_send", self._method)
        self.close()

    def answer(self, timeout: float | None = None) -> memoryview:
        """The answer's bytes, to be read. Sends the request if that was not done, and waits.

        A call that is not answered within `timeout` seconds (`Deadline`) is still under way: ask again, or leave.
        Without one it waits as long as the client's own deadline says, which costs less.
        """
        if not self._sent:
            self.start()
        if self._answer is None:
            limit = native.NO_TIMEOUT if timeout is None else max(0, round(timeout * 1e9))
            self._exclusive("call_wait", limit)
            size = ctypes.c_size_t()
            handle = self._open()
            base = native.get("call_response", handle.pointer, ctypes.byref(size))
            self._answer = native.view(base, size.value, handle)[1].toreadonly()
        return self._answer

    def close(self) -> None:
        """Ends the call; cancels it if it is under way."""
        self._handle = None
        _release(self.body)
        if self._answer is not None:
            _release(self._answer)

    def _open(self) -> Handle:
        if self._handle is None:
            raise ValueError("the call is over")
        return self._handle

    def _exclusive(self, function: str, argument: object) -> None:
        handle = self._open()
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("another thread uses this call")
        try:
            native.run(function, handle.pointer, argument)
        finally:
            self._busy.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


def _release(view: memoryview) -> None:
    try:
        view.release()
    except BufferError:
        # An array is made of it, and keeps the memory.
        pass


def connect(
    service: str,
    pool: str | os.PathLike[str] | None = None,
    *,
    waiting: Waiting = "adaptive",
    calls: int = 17,
    deadline: float | None = None,
    resend: float | None = None,
    patience: float = 5.0,
) -> Client:
    """Connects to a service by its name, over the pool at a socket (None: the user's own).

    Beyond the memory that is shared, `pool` is `tcp://host:port`; everything else is the same.

    `calls` may be under way at a time; one may take `deadline` seconds, is sent again after `resend` seconds without an
    answer (the server runs it once), and the service has `patience` seconds to accept the connection.
    """
    if not 1 <= calls <= 2**16 - 1:
        raise ValueError(f"{calls} calls at a time")
    options = native.ClientOptions(
        native.WAITING[waiting],
        calls,
        native.nanoseconds(deadline),
        native.nanoseconds(resend),
        native.nanoseconds(patience),
    )
    names = native.encoded(pool), native.encoded(service)
    return Client(Handle("client", "client_connect", *names, ctypes.byref(options)))
