"""The side that calls."""

import asyncio
import ctypes
import os
import sys
import threading
from typing import Self

from unrack.closing import Closing
from unrack.rpc import native
from unrack.rpc.errors import Deadline, Exhausted
from unrack.rpc.native import Handle, Waiting


class Client(Closing):
    """A connection to a service, which threads may share. See `connect`."""

    def __init__(self, handle: Handle, deadline: float | None = None) -> None:
        self._handle: Handle | None = handle
        self._deadline = deadline

    def call(
        self, method: str, size: int, room: int | None = None, *, deadline: float | None = None
    ) -> "Call":
        """A request of `size` bytes to be written, which may be answered by `room` bytes: as many if it is None.

        It may take `deadline` seconds from now, whatever the client's own deadline is; then it is over (`Deadline`).
        """
        room = size if room is None else room
        client = self._open()
        if size < 0 or room < 0:
            raise ValueError(f"a message of {min(size, room)} bytes")
        call = native.in_slices(
            lambda limit: Handle("call", "call_new_within", client.pointer, size, room, limit),
            self._deadline,
            Exhausted,
        )
        if deadline is not None:
            native.run("call_deadline", call.pointer, native.nanoseconds(deadline))
        return Call(call, method, self._deadline)

    @property
    def shares_memory(self) -> bool:
        """Whether the server can lend memory: over a pool, not over TCP."""
        return bool(native.get("client_shares_memory", self._open().pointer))

    def lent(self, offset: int, size: int, owner: object = None) -> memoryview:
        """Bytes that the server lends to its clients, by the offset that it said, to be read where they lie.

        The view, and all that is made of it, keeps the connection and `owner`, which may hold what the service has to
        keep meanwhile. What else keeps the bytes from being used for something else is the service's own.
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
        """Calls that are under way go on."""
        self._handle = None


class Call(Closing):
    """A call: a request that is written, then under way, then an answer that is read.

    Views of its messages are released at the end of its `with` block: to use one later is a ValueError. Slices of them
    and NumPy arrays stay good, and keep the message's memory in the pool, until they are gone themselves.
    """

    def __init__(self, handle: Handle, method: str, deadline: float | None = None) -> None:
        self._handle: Handle | None = handle
        self._deadline = deadline
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
        if not self._try_start():
            native.aside(self._start_when_there_is_room)

    def _start_when_there_is_room(self) -> None:
        self._exclusive("call_start", self._method)
        self._is_sent()

    def send(self) -> None:
        """Sends the request, which nobody answers. The call is over then."""
        self._exclusive("call_send", self._method)
        self.close()

    def parts(self, ahead: int = 0) -> "Parts":
        """Sends the request, for an answer in parts of up to the call's room each. The call is over then.

        `ahead` parts are asked for in advance.
        """
        if ahead < 0:
            raise ValueError(f"{ahead} parts ahead")
        handle = self._open()
        parts = native.aside(lambda: Handle("stream", "call_stream", handle.pointer, self._method, ahead))
        self.close()
        return Parts(parts, self._deadline)

    def answer(self, timeout: float | None = None) -> memoryview:
        """The answer's bytes, to be read. Sends the request if that was not done, and waits.

        The server has this memory, too: of one that is not trusted, copy what is to be checked (`bytes`, `struct.unpack`),
        and check and use the copy.

        A call that is not answered within `timeout` seconds (`Deadline`) is still under way: ask again, or leave.
        Without one it waits as long as the client's own deadline says, which costs less.
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
        """As `answer`, for tasks of asyncio: others run while this waits, for room or for the answer.

        A task that is cancelled leaves the call under way: ask again, or leave.
        """
        if not self._sent and not self._try_start():
            # Whoever makes room may be a task of this very loop.
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
        """Ends the call; cancels it if it is under way."""
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
        """Whether waiting would return at once. If not, the eventfd is written to when that may have changed."""
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
    """The parts of an answer, in order. Each is there until the next is asked for: copy what is to be kept.

    Who leaves in the middle tells the server by `close`, or by forgetting this.
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
        # This object's reference, and the argument's; what is made of the part has one, by its view.
        if self._exporter is not None and sys.getrefcount(self._exporter) > 2:
            raise BufferError("the part before is still used: copy what is to be kept")
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
        """No more parts are wanted."""
        self._handle = None
        native.release(self._part)


def _within(seconds: float | None, error: Deadline) -> Deadline:
    """The error of a wait that was made in slices, with the time of all of them."""
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
    handle = native.aside(lambda: Handle("client", "client_connect", *names, ctypes.byref(options)))
    return Client(handle, deadline)
