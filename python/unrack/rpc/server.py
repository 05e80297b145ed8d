"""Server side of calls: services, their handlers, and the calls that they handle."""

import atexit
import ctypes
import functools
import gc
import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator

from unrack.closing import Closing
from unrack.rpc import native
from unrack.rpc.native import Handle, Waiting

_log = logging.getLogger("unrack.rpc")
_here = threading.local()
_FAILED = -1


class Refusal(Exception):
    """Raised by a handler to refuse a call. The client gets `Refused` with the given number, from 1 to 3839."""

    def __init__(self, number: int) -> None:
        if not 1 <= number <= 3839:
            raise ValueError(f"numbers of refusals are 1 to 3839, and not {number}")
        super().__init__(number)
        self.number = number


class Incoming:
    """A call that a handler is processing. The handler must copy all data that it needs after it returns.

    If a handler keeps slices or arrays of a message after it returns, the call fails. The message's memory stays mapped as long as
    they exist, so using them is memory-safe, but their bytes will be those of later calls.

    The client has the request's memory mapped too, and a client that violates the protocol can write to it at any time. If the
    client is not trusted, copy the request first (`bytes(call.request)`, `struct.unpack`), then check and use the copy. Views,
    slices and arrays are not copies.
    """

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer
        self._exporters: list[ctypes.Array[ctypes.c_ubyte]] = []
        self._views: list[memoryview] = []
        size = ctypes.c_size_t()
        base = native.get("incoming_request", pointer, ctypes.byref(size))
        #: The bytes of the request, read-only. The answer will overwrite them, because both use the same memory.
        self.request: memoryview = self._view(base, size.value).toreadonly()
        self._views.append(self.request)

    @property
    def room(self) -> int:
        """Maximum length of the answer in bytes."""
        return int(native.get("incoming_room", self._open()))

    @property
    def process(self) -> int:
        """Process number of the client, as the kernel reports it."""
        return int(native.get("incoming_process", self._open()))

    @property
    def user(self) -> int:
        """User number of the client's process, as the kernel reports it."""
        return int(native.get("incoming_user", self._open()))

    def answer(self, size: int) -> memoryview:
        """Returns the bytes of an answer of `size` bytes, for the handler to fill.

        The answer uses the same memory as the request, so the handler has to read the request before it writes the answer.
        Raises `BufferError` if the client does not have room for `size` bytes.
        """
        base = native.get("incoming_answer", self._open(), size)
        if not base:
            raise BufferError(f"an answer of {size} bytes: the client has room for {self.room}")
        return self._view(base, size)

    def _open(self) -> int:
        if not self._pointer:
            raise ValueError("the handler has returned")
        return self._pointer

    def _view(self, base: int, size: int) -> memoryview:
        exporter, view = native.view(base, size, None)
        self._exporters.append(exporter)
        self._views.append(view)
        return view

    def _close(self) -> bool:
        """Releases all views. Returns whether the handler kept slices or arrays of them, which then keep the memory mapped."""
        pointer, self._pointer = self._pointer, 0
        if self._released():
            return False
        # Leftover objects of the handler may be in a reference cycle.
        gc.collect()
        if self._released():
            return False
        kept = native.Kept(pointer)
        for exporter in self._exporters:
            native.own(exporter, kept)
        return True

    def _released(self) -> bool:
        try:
            for view in self._views:
                view.release()
        except BufferError:
            return False
        # Three references are expected: the list's, the loop variable's and getrefcount's argument. A slice holds another.
        return all(sys.getrefcount(exporter) == 3 for exporter in self._exporters)


Bytes = bytes | bytearray | memoryview
Handler = Callable[[Incoming], Bytes | None]
StreamHandler = Callable[[Incoming], Iterable[Bytes]]


def _handle(name: str, handler: Callable[[Incoming], int], pointer: int) -> int:
    call = Incoming(pointer)
    _here.handling = True
    number = _FAILED
    try:
        number = handler(call)
    except Refusal as refusal:
        number = refusal.number
    except (Exception, SystemExit):  # noqa: BLE001 (an uncaught exception would reach C as a successful return)
        _log.exception("the handler of %s failed", name)
    finally:
        _here.handling = False
    if call._close():
        _log.error(
            "the handler of %s keeps views of a message after its return: it must copy the data that it keeps",
            name,
        )
        return _FAILED
    return number


def _answered(call: Incoming, handler: Handler) -> int:
    answer = handler(call)
    if answer is not None:
        call.answer(len(answer))[:] = answer
    return 0


class _Streams:
    """The unfinished answers in parts of one method. Each has a number, which starts at 1 because C takes 0 for none."""

    def __init__(self, name: str, handler: StreamHandler) -> None:
        self._name = name
        self._handler = handler
        self._numbers = itertools.count(1)
        # Remaining parts of each answer, and the next part, or None after the last.
        self._under_way: dict[int, tuple[Iterator[Bytes], Bytes | None]] = {}

    def open(self, _: None, pointer: int, place: "ctypes._Pointer[ctypes.c_void_p]") -> int:
        def begin(call: Incoming) -> int:
            left = iter(self._handler(call))
            number = next(self._numbers)
            self._under_way[number] = left, next(left, None)
            place[0] = number
            return 0

        return _handle(self._name, begin, pointer)

    def next(self, number: int, pointer: int) -> int:
        def write(call: Incoming) -> int:
            left, part = self._under_way[number]
            part = b"" if part is None else part
            call.answer(len(part))[:] = part
            # Each part is sent with a mark whether it is the last, so the next part must be known before this one is sent.
            following = next(left, None)
            self._under_way[number] = left, following
            return 0 if following is None else native.MORE

        return _handle(self._name, write, pointer)

    def close(self, number: int) -> None:
        left = self._under_way.pop(number, (None, None))[0]
        try:
            close = getattr(left, "close", None)
            if close is not None:
                close()
        except Exception:  # noqa: BLE001 (no caller is left to raise it to)
            _log.exception("the handler of %s failed when its answer was closed", self._name)


class Server(Closing):
    """A service. Its handlers run on threads of the library.

    If a handler raises an exception other than `Refusal`, the exception is logged and the client gets `Failed`.
    """

    def __init__(
        self, name: str, *, waiting: Waiting = "adaptive", queue_threads: int = 1, workers: int = 0
    ) -> None:
        """Creates a service, which has to get its methods before it is started.

        Args:
            name: Name under which clients find the service.
            waiting: Way of waiting for calls: `spin` polls, `sleep` sleeps, and `adaptive` polls for a while, then sleeps.
            queue_threads: Number of threads that receive calls.
            workers: Number of threads that run handlers; 0 runs them on the threads that receive calls.
        """
        if queue_threads < 1 or workers < 0:
            raise ValueError(f"{queue_threads} queue threads and {workers} workers")
        options = native.ServerOptions(native.WAITING[waiting], queue_threads, workers)
        self._handle: Handle | None = Handle(
            "server", "server_new", native.encoded(name), ctypes.byref(options)
        )
        # Keeps the callbacks alive, because the library calls them until the server is closed.
        self._callbacks: list[object] = []

    def method(self, name: str) -> Callable[[Handler], Handler]:
        """Returns a decorator that adds a function as the handler of a method. Use it before `start`.

        The handler either writes the answer in place (`Incoming.answer`), or returns the bytes of the answer.
        """

        def add(handler: Handler) -> Handler:
            run = functools.partial(_answered, handler=handler)
            callback = native.Handler(lambda _, pointer: _handle(name, run, pointer))
            native.run("server_method", self._open().pointer, native.encoded(name), callback, None)
            self._callbacks.append(callback)
            return handler

        return add

    def stream(self, name: str) -> Callable[[StreamHandler], StreamHandler]:
        """Returns a decorator that adds a handler which answers in parts. Use it before `start`.

        The handler is a generator of the parts, or returns an iterable of them. It must read the request before it yields the
        first part, and copy the data of the request that it needs later. The handler runs one part ahead of the client, because
        each part is sent with a mark whether it is the last. If the handler yields no parts, the client gets one empty part.
        """

        def add(handler: StreamHandler) -> StreamHandler:
            streams = _Streams(name, handler)
            callbacks = (
                native.Opener(streams.open),
                native.Handler(streams.next),
                native.Closer(streams.close),
            )
            native.run("server_stream", self._open().pointer, native.encoded(name), *callbacks, None)
            self._callbacks.extend(callbacks)
            return handler

        return add

    def start(self, pool: str | os.PathLike[str] | None = None) -> None:
        """Registers the service in a pool and starts its threads, which serve until the server is closed.

        `pool` is the path of the pool's socket; None selects the pool of the current user. With `tcp://host:port`, the server
        listens at that address instead, for clients that share no memory with it.
        """
        pointer, place = self._open().pointer, native.encoded(pool)
        native.aside(lambda: native.run("server_start", pointer, place))
        # Close before the interpreter shuts down, because handlers cannot run afterwards.
        atexit.register(self.close)

    def close(self) -> None:
        """Waits for the running handlers, then ends the service and all its connections.

        A forked child does not end a service of its parent. Raises `RuntimeError` if a handler calls this, because the handler
        would wait for itself.
        """
        if getattr(_here, "handling", False):
            raise RuntimeError("a handler cannot close a server: it would wait for itself")
        handle, self._handle = self._handle, None
        atexit.unregister(self.close)
        if handle is not None:
            native.aside(handle.free)

    def _open(self) -> Handle:
        if self._handle is None:
            raise ValueError("the server is closed")
        return self._handle
