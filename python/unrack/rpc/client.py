"""Client side of calls: connections, calls, and answers in parts."""

import asyncio
import ctypes
import os
import sys
import threading
import time
from typing import Self

from unrack.closing import Closing
from unrack.rpc import native
from unrack.rpc.errors import Deadline, Exhausted
from unrack.rpc.native import Handle, Waiting

# Longest time in seconds that allocating a call takes if there is room.
_MOMENT = 1e-3


class Client(Closing):
    """A connection to a service. Threads may share it. See `connect`."""

    def __init__(self, handle: Handle, deadline: float | None = None) -> None:
        self._handle: Handle | None = handle
        self._deadline = deadline

    def call(
        self, method: str, size: int, room: int | None = None, *, deadline: float | None = None
    ) -> "Call":
        """Allocates a call: a request of `size` bytes for the caller to fill, and room for an answer.

        Args:
            method: Name of the method to call.
            size: Length of the request in bytes.
            room: Maximum length of the answer in bytes; None means `size`.
            deadline: Seconds from now after which the call fails with `Deadline`. Replaces the client's deadline, also for the
                wait for room if too many calls are in flight.

        Raises `Exhausted` if too many calls are in flight and none ends within the deadline.
        """
        room = size if room is None else room
        client = self._open()
        if size < 0 or room < 0:
            raise ValueError(f"a message of {min(size, room)} bytes")
        begin = time.monotonic()
        call = native.in_slices(
            lambda limit: Handle("call", "call_new_within", client.pointer, size, room, limit),
            self._deadline if deadline is None else deadline,
            Exhausted,
        )
        if deadline is not None:
            waited = time.monotonic() - begin
            # Errors name the deadline, so it is shortened only by a wait that counts.
            left = deadline if waited < _MOMENT else max(0.0, deadline - waited)
            native.run("call_deadline", call.pointer, native.nanoseconds(left))
        return Call(call, method, self._deadline)

    @property
    def shares_memory(self) -> bool:
        """Whether the server can lend memory to this client: true over a pool, false over TCP."""
        return bool(native.get("client_shares_memory", self._open().pointer))

    def lent(self, offset: int, size: int, owner: object = None) -> memoryview:
        """Returns a read-only view of memory that the server lends to its clients, at an offset that the server has sent.

        The view, and every slice or array of it, keeps the connection and `owner` alive. The service decides how long the bytes
        stay unchanged; `owner` can be an object whose end informs the service that this client no longer reads them.

        Raises `BufferError` if the server does not lend these bytes.
        """
        client = self._open()
        base = native.get("client_lent", client.pointer, offset, size)
        if base is None:
            raise BufferError(f"the server lends no {size} bytes at {offset}")
        return native.view(base, size, (client, owner))[1].toreadonly()

    def _open(self) -> Handle:
        if self._handle is None:
            raise ValueError("the client is closed")
        return self._handle

    def close(self) -> None:
        """Closes the connection. Calls that are in flight still complete."""
        self._handle = None


class Call(Closing):
    """A call: the caller fills the request (`body`), sends it, and reads the answer.

    The views of the request and of the answer are released at the end of the call's `with` block; a later use of them raises
    `ValueError`. Slices and NumPy arrays of these views stay valid, and keep the message's memory in the pool until they are
    dropped.
    """

    def __init__(self, handle: Handle, method: str, deadline: float | None = None) -> None:
        self._handle: Handle | None = handle
        self._deadline = deadline
        self._method = native.encoded(method)
        self._busy = threading.Lock()
        self._answer: memoryview | None = None
        size = ctypes.c_size_t()
        base = native.get("call_request", handle.pointer, ctypes.byref(size))
        #: The bytes of the request, which the caller fills before it sends the request. They are not zeroed: they hold data of earlier
        #: calls.
        self.body: memoryview = native.view(base, size.value, handle)[1]
        self._sent = False

    def start(self) -> None:
        """Sends the request without waiting for the answer, which `answer` or `wait` returns later. Do not use `body` after this."""
        if not self._try_start():
            native.aside(self._start_when_there_is_room)

    def _start_when_there_is_room(self) -> None:
        self._exclusive("call_start", self._method)
        self._is_sent()

    def send(self) -> None:
        """Sends a one-way request: the server sends no answer, and the call ends at once."""
        self._exclusive("call_send", self._method)
        self.close()

    def parts(self, ahead: int = 0) -> "Parts":
        """Sends the request, and returns an iterator over the parts of its answer. This call object is closed by that.

        Each part has at most as many bytes as the call has room for. The client requests `ahead` parts in advance.
        """
        if ahead < 0:
            raise ValueError(f"{ahead} parts ahead")
        handle = self._open()
        parts = native.aside(lambda: Handle("stream", "call_stream", handle.pointer, self._method, ahead))
        self.close()
        return Parts(parts, self._deadline)

    def answer(self, timeout: float | None = None) -> memoryview:
        """Waits for the answer, and returns a read-only view of its bytes. Sends the request first if it was not sent yet.

        The server has this memory mapped too and can change it at any time: if the server is not trusted, copy the bytes first
        (`bytes`, `struct.unpack`), then check and use the copy.

        If the server does not answer within `timeout` seconds, `Deadline` is raised and the call stays in flight: call `answer`
        again, or close the call. Without a timeout, the wait lasts until the client's deadline, which costs less.
        """
        if not self._sent:
            self.start()
        if self._answer is None:
            try:
                native.in_slices(lambda limit: self._exclusive("call_wait", limit), timeout, Deadline)
            except Deadline as error:
                raise _within(timeout, error) from None
            size = ctypes.c_size_t()
            handle = self._open()
            base = native.get("call_response", handle.pointer, ctypes.byref(size))
            self._answer = native.view(base, size.value, handle)[1].toreadonly()
        return self._answer

    async def wait(self) -> memoryview:
        """Does the same as `answer` in asyncio: other tasks run while this one waits for a free slot or for the answer.

        If the task is cancelled, the call stays in flight: call `wait` again, or close the call.
        """
        if not self._sent and not self._try_start():
            # Wait on a thread, because a task of this same event loop may have to run to make room.
            await asyncio.to_thread(self._start_when_there_is_room)
        event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            while not self._poll(event):
                await _readable(event)
                os.eventfd_read(event)
        finally:
            os.close(event)
        return self.answer()

    def close(self) -> None:
        """Ends the call, and cancels it if it is in flight."""
        self._handle = None
        native.release(self.body)
        if self._answer is not None:
            native.release(self._answer)

    def _is_sent(self) -> None:
        self._sent = True
        native.release(self.body)

    def _try_start(self) -> bool:
        started = ctypes.c_bool()
        self._exclusive("call_try_start", self._method, ctypes.byref(started))
        if started.value:
            self._is_sent()
        return started.value

    def _poll(self, event: int) -> bool:
        """Returns whether a wait would return at once. If not, the library writes to the eventfd when that may have changed."""
        ready = ctypes.c_bool()
        self._exclusive("call_poll", event, ctypes.byref(ready))
        return ready.value

    def _open(self) -> Handle:
        if self._handle is None:
            raise ValueError("the call is over")
        return self._handle

    def _exclusive(self, function: str, *arguments: object) -> None:
        handle = self._open()
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("another thread uses this call")
        try:
            native.run(function, handle.pointer, *arguments)
        finally:
            self._busy.release()


class Parts:
    """Iterator over the parts of an answer, in order. A part is valid only until the next one is requested: copy it to keep it.

    A caller that stops before the last part should call `close`, which informs the server; dropping this object does the same.
    """

    def __init__(self, handle: Handle, deadline: float | None = None) -> None:
        self._handle: Handle | None = handle
        self._deadline = deadline
        self._part = memoryview(b"")
        self._exporter: object = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> memoryview:
        if self._handle is None:
            raise StopIteration
        native.release(self._part)
        # Two references are expected: this object's attribute and getrefcount's argument. A slice or array of the part holds another.
        if self._exporter is not None and sys.getrefcount(self._exporter) > 2:
            raise BufferError("the previous part is still in use: copy the data that you keep")
        base, size = ctypes.c_void_p(), ctypes.c_size_t()
        places, pointer = (ctypes.byref(base), ctypes.byref(size)), self._handle.pointer
        try:
            native.in_slices(
                lambda limit: native.run("stream_next_within", pointer, limit, *places),
                self._deadline,
                Deadline,
            )
        except Deadline as error:
            raise _within(self._deadline, error) from None
        if base.value is None:
            self.close()
            raise StopIteration
        self._exporter, part = native.view(base.value, size.value, self._handle)
        self._part = part.toreadonly()
        return self._part

    def close(self) -> None:
        """Ends the iteration, and informs the server that this client wants no more parts."""
        self._handle = None
        native.release(self._part)


def _within(seconds: float | None, error: Deadline) -> Deadline:
    """Returns the error of a wait that was split into slices, with the total time in its text instead of the time of one slice."""
    if seconds is None or not error.under_way:
        return error
    whole = Deadline(f"{error.peer} did not answer within {seconds:g} s", error.peer)
    whole.under_way = True
    return whole


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    came = loop.create_future()

    def readable() -> None:
        if not came.done():
            came.set_result(None)

    loop.add_reader(descriptor, readable)
    try:
        await came
    finally:
        loop.remove_reader(descriptor)


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
    """Connects to a service by its name, over a pool or over TCP.

    Args:
        service: Name of the service.
        pool: Path of the pool's socket, None for the pool of the current user, or `tcp://host:port` for a server that shares no
            memory with this machine. Calls work the same way in all cases.
        waiting: Way of waiting for an answer: `spin` polls, `sleep` sleeps, and `adaptive` polls for a while, then sleeps.
        calls: Maximum number of calls in flight.
        deadline: Seconds that a call may take; None sets no limit.
        resend: Seconds after which a request without an answer is sent again; the server runs it only once. None never resends.
        patience: Seconds that the service has to accept the connection.
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
    handle = native.aside(lambda: Handle("client", "client_connect", *names, ctypes.byref(options)))
    return Client(handle, deadline)
