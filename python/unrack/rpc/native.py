"""Binding of the C library: loads it, declares its functions, and converts their errors to exceptions."""

import ctypes
import os
import threading
import time
from collections.abc import Callable
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int32, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Literal, TypeVar

from unrack.rpc.errors import BY_STATUS, Deadline, Error, InternalError, Invalid, NoRoom, Refused

T = TypeVar("T")

Waiting = Literal["adaptive", "spin", "sleep"]
WAITING: dict[str, int] = {"adaptive": 0, "spin": 1, "sleep": 2}
NO_TIMEOUT = 2**64 - 1
# Maximum seconds of one wait in C on the main thread, which handles signals, such as that of Ctrl-C, between two waits.
_SLICE = 0.05


class ClientOptions(ctypes.Structure):
    """Layout of `unrack_client_options` in unrack_rpc.h."""

    _fields_ = [
        ("waiting", c_uint32),
        ("calls", c_uint16),
        ("deadline_ns", c_uint64),
        ("resend_ns", c_uint64),
        ("patience_ns", c_uint64),
    ]


class ServerOptions(ctypes.Structure):
    """Layout of `unrack_server_options` in unrack_rpc.h."""

    _fields_ = [("waiting", c_uint32), ("queue_threads", c_uint32), ("workers", c_uint32)]


_PLACE = POINTER(c_void_p)
Handler = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p)
Opener = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, _PLACE)
Closer = ctypes.CFUNCTYPE(None, c_void_p)
# Return value of a stream's callback if another part follows.
MORE = 4096

_LENGTH = POINTER(c_size_t)
# Name, type of the result and types of the arguments of each function, as declared in unrack_rpc.h.
_FUNCTIONS: list[tuple[str, Any, list[Any]]] = [
    ("error_status", c_int, [c_void_p]),
    ("error_text", c_char_p, [c_void_p]),
    ("error_peer", c_char_p, [c_void_p]),
    ("error_number", c_uint32, [c_void_p]),
    ("error_free", None, [c_void_p]),
    ("client_connect", c_int, [c_char_p, c_char_p, POINTER(ClientOptions), _PLACE, _PLACE]),
    ("client_free", None, [c_void_p]),
    ("client_shares_memory", c_bool, [c_void_p]),
    ("client_lent", c_void_p, [c_void_p, c_uint64, c_size_t]),
    ("call_new", c_int, [c_void_p, c_size_t, c_size_t, _PLACE, _PLACE]),
    ("call_new_within", c_int, [c_void_p, c_size_t, c_size_t, c_uint64, _PLACE, _PLACE]),
    ("call_request", c_void_p, [c_void_p, _LENGTH]),
    ("call_start", c_int, [c_void_p, c_char_p, _PLACE]),
    ("call_try_start", c_int, [c_void_p, c_char_p, POINTER(c_bool), _PLACE]),
    ("call_deadline", c_int, [c_void_p, c_uint64, _PLACE]),
    ("call_poll", c_int, [c_void_p, c_int, POINTER(c_bool), _PLACE]),
    ("call_send", c_int, [c_void_p, c_char_p, _PLACE]),
    ("call_wait", c_int, [c_void_p, c_uint64, _PLACE]),
    ("call_response", c_void_p, [c_void_p, _LENGTH]),
    ("call_stream", c_int, [c_void_p, c_char_p, c_size_t, _PLACE, _PLACE]),
    ("call_free", None, [c_void_p]),
    ("stream_next_within", c_int, [c_void_p, c_uint64, _PLACE, _LENGTH, _PLACE]),
    ("stream_free", None, [c_void_p]),
    ("server_new", c_int, [c_char_p, POINTER(ServerOptions), _PLACE, _PLACE]),
    ("server_method", c_int, [c_void_p, c_char_p, Handler, c_void_p, _PLACE]),
    ("server_stream", c_int, [c_void_p, c_char_p, Opener, Handler, Closer, c_void_p, _PLACE]),
    ("server_start", c_int, [c_void_p, c_char_p, _PLACE]),
    ("server_free", None, [c_void_p]),
    ("incoming_request", c_void_p, [c_void_p, _LENGTH]),
    ("incoming_room", c_size_t, [c_void_p]),
    ("incoming_answer", c_void_p, [c_void_p, c_size_t]),
    ("incoming_process", c_uint32, [c_void_p]),
    ("incoming_user", c_uint32, [c_void_p]),
    ("incoming_keep", c_void_p, [c_void_p]),
    ("kept_free", None, [c_void_p]),
    ("endpoint_connect", c_int, [c_char_p, _PLACE, _PLACE]),
    ("endpoint_free", None, [c_void_p]),
    ("endpoint_listen", c_int, [c_void_p, c_char_p, _PLACE, _PLACE]),
    ("endpoint_open", c_int, [c_void_p, c_char_p, c_uint64, _PLACE, _PLACE]),
    ("endpoint_buffer", c_int, [c_void_p, c_uint64, c_bool, _PLACE, _PLACE]),
    ("listener_accept", c_int, [c_void_p, c_uint64, _PLACE, _PLACE]),
    ("listener_descriptor", c_int, [c_void_p]),
    ("listener_free", None, [c_void_p]),
    ("link_stream", c_int, [c_void_p, POINTER(c_int), _PLACE]),
    ("link_process", c_uint32, [c_void_p]),
    ("link_lent", c_size_t, [c_void_p]),
    ("link_lend", c_int, [c_void_p, c_void_p, POINTER(c_uint64), _PLACE]),
    ("link_receive", c_int, [c_void_p, c_uint64, c_uint64, c_bool, _PLACE, _PLACE]),
    ("link_free", None, [c_void_p]),
    ("buffer_bytes", c_void_p, [c_void_p]),
    ("buffer_free", None, [c_void_p]),
    ("loan_bytes", c_void_p, [c_void_p]),
    ("loan_free", None, [c_void_p]),
]


# The wheel and `make install` put the library in the folder above python3.N/site-packages; otherwise the system's path is searched.
_NAME = "libunrack_rpc.so.0"


def _load() -> ctypes.CDLL:
    path = os.environ.get("UNRACK_RPC_LIBRARY", _NAME)
    installed = Path(__file__).parents[4] / _NAME
    if path == _NAME and installed.exists():
        path = str(installed)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        hint = "install it (`pip install unrack`, or `make install`), or name it by UNRACK_RPC_LIBRARY"
        raise ImportError(f"{error}: {hint}", path=path) from error
    for name, result, arguments in _FUNCTIONS:
        function = getattr(library, f"unrack_{name}")
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


def get(name: str, *arguments: Any) -> Any:
    """Calls a function of the library that cannot fail, and returns its result."""
    return getattr(_library, f"unrack_{name}")(*arguments)


def run(name: str, *arguments: Any) -> None:
    """Calls a function of the library that can fail. Raises its error as an exception of `unrack.rpc.errors`."""
    error = c_void_p()
    if getattr(_library, f"unrack_{name}")(*arguments, ctypes.byref(error)):
        raise _exception(error)


def _exception(error: c_void_p) -> Error:
    status = get("error_status", error)
    cause = get("error_text", error).decode()
    peer = get("error_peer", error)
    number = get("error_number", error)
    get("error_free", error)
    exception = BY_STATUS.get(status, InternalError)(cause, peer.decode() if peer else None)
    if isinstance(exception, Refused):
        exception.number = number
    if isinstance(exception, NoRoom):
        exception.needed = number
    if isinstance(exception, Deadline):
        exception.under_way = number == 1
    return exception


# Number of forks between the process that imported this module and the current process.
_forks = [0]


# Identifier of the main thread. In a forked child, this is the thread that called fork.
_main_thread = [threading.main_thread().ident]


def _forked() -> None:
    _forks[0] += 1
    _main_thread[0] = threading.main_thread().ident


os.register_at_fork(after_in_child=_forked)


def _is_main_thread() -> bool:
    return threading.get_ident() == _main_thread[0]


def in_slices(attempt: Callable[[int], T], limit: float | None, over: type[Error]) -> T:
    """Waits up to `limit` seconds by calling `attempt`, and returns its result. None waits without a limit.

    On the main thread the wait is split into slices, so that the interpreter can handle signals between them.

    Args:
        attempt: Function that waits up to the given number of nanoseconds, then raises `over`.
        limit: Seconds to wait in total, or None.
        over: Exception by which `attempt` reports that its time has elapsed. It is raised after `limit` seconds.
    """
    if not _is_main_thread():
        return attempt(NO_TIMEOUT if limit is None else max(0, round(limit * 1e9)))
    end = None if limit is None else time.monotonic() + limit
    while True:
        left = _SLICE if end is None else min(_SLICE, max(0.0, end - time.monotonic()))
        try:
            return attempt(round(left * 1e9))
        except over as error:
            if not getattr(error, "under_way", True) or (end is not None and time.monotonic() >= end):
                raise


def aside(function: Callable[[], T]) -> T:
    """Runs a function that may wait in C, and returns its result.

    A call from the main thread runs the function on another thread, so that the interpreter can handle signals meanwhile. If a
    signal handler raises, as that of Ctrl-C does, the other thread still waits to the end, and then frees the result.
    """
    if not _is_main_thread():
        return function()
    ended: list[tuple[T | None, BaseException | None]] = []

    def run() -> None:
        try:
            ended.append((function(), None))
        except BaseException as error:  # noqa: BLE001 (it is raised on the main thread)
            ended.append((None, error))

    thread = threading.Thread(target=run, name="unrack-wait", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # The interpreter is shutting down, or the machine cannot create another thread.
        return function()
    thread.join()
    result, error = ended.pop()
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


class Handle:
    """An object of the C library. It is freed when the last Python reference to it is dropped, so never while a thread uses it.

    A forked child has copies of its parent's handles. The library rejects their use in the child, and freeing them there does not
    affect the parent.
    """

    def __init__(self, kind: str, make: str, *arguments: Any) -> None:
        self.pointer = c_void_p()
        self._forks = _forks[0]
        self._free = getattr(_library, f"unrack_{kind}_free")
        run(make, *arguments, ctypes.byref(self.pointer))

    @property
    def is_inherited(self) -> bool:
        """Whether the parent process created this handle before a fork, so that this process cannot use it."""
        return self._forks != _forks[0]

    def check_process(self) -> None:
        """Raises `Invalid` if the parent process created this handle. Operations that do not call the library need this check."""
        if self.is_inherited:
            raise Invalid(
                "this connection was made before a fork, by the parent process: a child by fork must connect for itself"
            )

    def free(self) -> None:
        """Frees the object now. The caller ensures that no thread uses it."""
        pointer, self.pointer = self.pointer, c_void_p()
        if pointer and self._free:
            self._free(pointer)

    def __del__(self, forks: list[int] = _forks) -> None:
        # The pointer is null if the object was not created, and the function may be None when the interpreter shuts down.
        if self.pointer and self._free and self._forks == forks[0]:
            self._free(self.pointer)


class Kept:
    """Keeps the memory of a call's messages mapped as long as this object exists."""

    def __init__(self, incoming: int) -> None:
        self._pointer = _library.unrack_incoming_keep(incoming)
        self._free = _library.unrack_kept_free

    def __del__(self) -> None:
        self._free(self._pointer)


def own(exporter: ctypes.Array[ctypes.c_ubyte], owner: object) -> None:
    """Keeps `owner` alive as long as the exporter exists."""
    # ctypes arrays accept attributes, but their type stubs do not declare that.
    setattr(exporter, "owner", owner)  # noqa: B010


def view(base: int, size: int, owner: object) -> tuple[ctypes.Array[ctypes.c_ubyte], memoryview]:
    """Returns an exporter of `size` bytes at an address, and a view of these bytes.

    The exporter, the view, and every slice or array of the view keep `owner` alive, unless it is None.
    """
    exporter = (ctypes.c_ubyte * size).from_address(base)
    own(exporter, owner)
    # An empty view cannot be cast.
    return exporter, memoryview(exporter).cast("B") if size else memoryview(bytearray())


class _Buffer(ctypes.Structure):
    """Layout of `Py_buffer` of the Python C API."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, POINTER(_Buffer), c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [POINTER(_Buffer)], None


def copy(to: memoryview, source: memoryview) -> None:
    """Copies contiguous bytes with the interpreter lock released; a slice assignment would hold the lock."""
    if to.nbytes != source.nbytes or to.readonly:
        raise ValueError(f"{source.nbytes} bytes into {to.nbytes}")
    buffers = _Buffer(), _Buffer()
    held = []
    try:
        for view, buffer in zip((to, source), buffers, strict=True):
            _get_buffer(view, ctypes.byref(buffer), 0)
            held.append(buffer)
        ctypes.memmove(buffers[0].buf, buffers[1].buf, source.nbytes)
    finally:
        for buffer in held:
            _release_buffer(ctypes.byref(buffer))


def release(view: memoryview) -> None:
    """Releases a view, unless a slice or an array of it still exists, which then keeps the memory."""
    try:
        view.release()
    except BufferError:
        pass


def length(size: int) -> int:
    """Returns `size`, and raises `ValueError` if it is negative, because C would read a negative number as a large one."""
    if size < 0:
        raise ValueError(f"a buffer of {size} bytes")
    return size


def nanoseconds(seconds: float | None) -> int:
    """Converts seconds to nanoseconds for the library's options, in which 0 means that the option is not set (None)."""
    return 0 if seconds is None else max(1, round(seconds * 1e9))


def encoded(text: str | os.PathLike[str] | None) -> bytes | None:
    """Encodes a text for C. Raises `ValueError` if it has a zero byte, which would end the text in C."""
    if text is None:
        return None
    given = os.fspath(text).encode()
    if b"\0" in given:
        raise ValueError(f"{text!r} has a zero inside")
    return given
