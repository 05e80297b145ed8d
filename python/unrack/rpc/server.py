"""The side that is called."""

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
    """Raised by a handler: the client is told the number, from 1 to 3839 (`Refused`)."""

    def __init__(self, number: int) -> None:
        if not 1 <= number <= 3839:
            raise ValueError(f"numbers of refusals are 1 to 3839, and not {number}")
        super().__init__(number)
        self.number = number


class Incoming:
    """A call that is being handled. Nothing of it may be kept when the handler returns: copy what is needed.

    A handler that keeps slices or arrays nevertheless has failed. Its memory stays mapped as long as they are there,
    so they do no harm, but their bytes are those of later calls.

    The client has the request's memory, too, and one that keeps to no protocol may write to it meanwhile. What is to be
    checked is copied first (`bytes(call.request)`, `struct.unpack`), and the copy is checked and used; views, slices and
    arrays are no copies.
    """

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer
        self._exporters: list[ctypes.Array[ctypes.c_ubyte]] = []
        self._views: list[memoryview] = []
        size = ctypes.c_size_t()
        base = native.get("incoming_request", pointer, ctypes.byref(size))
        #: The request's bytes. The answer is going to be in their place.
        self.request: memoryview = self._view(base, size.value).toreadonly()
        self._views.append(self.request)

    @property
    def room(self) -> int:
        """How many bytes the answer may have."""
        return int(native.get("incoming_room", self._open()))

    @property
    def process(self) -> int:
        """The process that calls, as the kernel knows it."""
        return int(native.get("incoming_process", self._open()))

    @property
    def user(self) -> int:
        """The user whose process calls, as the kernel knows it."""
        return int(native.get("incoming_user", self._open()))

    def answer(self, size: int) -> memoryview:
        """The answer's bytes, to be written. They are where the request is: read first what is still needed of it."""
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
        """Ends all views. Says whether something was made of them that is still there, which then keeps the memory."""
        pointer, self._pointer = self._pointer, 0
        if self._released():
            return False
        # What the handler left may be in a cycle.
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
        # This list has one reference, the loop another, and so has the argument; a slice would have one by its view.
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
    except (Exception, SystemExit):  # noqa: BLE001 (C would take for an answer what is not caught)
        _log.exception("the handler of %s failed", name)
    finally:
        _here.handling = False
    if call._close():
        _log.error(
            "the handler of %s keeps views of a message that is gone: it must copy what it keeps", name
        )
        return _FAILED
    return number


def _answered(call: Incoming, handler: Handler) -> int:
    answer = handler(call)
    if answer is not None:
        call.answer(len(answer))[:] = answer
    return 0


class _Streams:
    """Answers in parts that are under way, by their numbers: zero is none to C."""

    def __init__(self, name: str, handler: StreamHandler) -> None:
        self._name = name
        self._handler = handler
        self._numbers = itertools.count(1)
        # What is left of each, and the part that is next, if there is one.
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
            # Whether it is the last is said with it.
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
        except Exception:  # noqa: BLE001 (nobody is there to be told)
            _log.exception("the handler of %s failed when its answer was over", self._name)


class Server(Closing):
    """A service. Its handlers run on threads of its own; what they raise is logged, and the client told `Failed`."""

    def __init__(self, name: str, *, waiting: Waiting = "adaptive", lanes: int = 1, workers: int = 0) -> None:
        """`lanes` threads look for calls and, if there are no `workers`, run handlers."""
        if lanes < 1 or workers < 0:
            raise ValueError(f"{lanes} lanes and {workers} workers")
        options = native.ServerOptions(native.WAITING[waiting], lanes, workers)
        self._handle: Handle | None = Handle(
            "server", "server_new", native.encoded(name), ctypes.byref(options)
        )
        # Called by the library, until the server is closed.
        self._callbacks: list[object] = []

    def method(self, name: str) -> Callable[[Handler], Handler]:
        """Adds a handler, before the service is started. It writes the answer in place, or returns its bytes."""

        def add(handler: Handler) -> Handler:
            run = functools.partial(_answered, handler=handler)
            callback = native.Handler(lambda _, pointer: _handle(name, run, pointer))
            native.run("server_method", self._open().pointer, native.encoded(name), callback, None)
            self._callbacks.append(callback)
            return handler

        return add

    def stream(self, name: str) -> Callable[[StreamHandler], StreamHandler]:
        """Adds a handler that answers in parts, before the service is started: it returns, or is, what iterates over them.

        It reads the request before its first part, and copies what it needs of it later. It is one part ahead of the
        client, since the last one is said to be that. An answer without parts has one of no bytes.
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
        """Registers with the pool at a socket (None: the user's own), and serves until it is closed.

        If `pool` is `tcp://host:port`, it listens there, for clients that share no memory.
        """
        pointer, place = self._open().pointer, native.encoded(pool)
        native.aside(lambda: native.run("server_start", pointer, place))
        # Handlers cannot run when the interpreter is gone.
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the service with all its connections, after the handlers that run. A child by fork leaves its parent's alone."""
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
