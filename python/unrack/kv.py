"""Client of the key-value store `unrack-kv`: a get copies no data, because the client reads the value in the server's memory.

    from unrack import kv

    with kv.connect() as store:
        store.put(b"key", b"value")
        with store.get(b"key") as value:
            print(bytes(value.body), value.version)

Over a pool, the server lends its values read-only. A value that a client holds stays valid and unchanged until the client has
closed it and has dropped every slice or array of its body. Over TCP the same functions return copies.
"""

import os
import struct
import threading

from unrack import rpc
from unrack.closing import Closing
from unrack.rpc.native import Waiting

# Length of the key, place, length of the value, version: the same layout as in crates/pool/kv/src/wire.rs.
_HEADER = struct.Struct("<HHIQ")
_FOUND = struct.Struct("<QQQ")
_VERSION = struct.Struct("<Q")
_MOST_PLACES = 1024
_FULL = 1
# Minimum length of a value that is released at once when the client drops it. A smaller one is released by the next get in its place.
_LARGE = 64 << 10
# Room for a copied value in the first attempt.
_USUAL = 4 << 10


class Value(Closing):
    """A value of the store: its read-only bytes (`body`) and its `version`. Within a store, later versions are larger."""

    def __init__(self, body: memoryview, version: int, call: rpc.Call | None = None) -> None:
        self.body = body
        self.version = version
        self._call = call

    def close(self) -> None:
        """Releases the value. Arrays and slices of its body stay valid, and keep the memory until they are dropped."""
        try:
            self.body.release()
        except BufferError:
            # An array of the body still exists, and keeps the memory.
            pass
        if self._call is not None:
            self._call.close()


class Store(Closing):
    """A connection to a store. Threads may share it. See `connect`."""

    def __init__(self, client: rpc.Client) -> None:
        self._client = client
        self._places = _Places(client)

    def get(self, key: bytes) -> Value | None:
        """Returns the value of a key, or None if the store does not have the key.

        Over a pool, a client can hold up to 1,024 values at a time; one more raises `BufferError`.
        """
        if not self._client.shares_memory:
            return self._read(key)
        place = self._places.take()
        with self._call("kv.get", key, _FOUND.size, place=place.number) as call:
            answer = call.answer()
            if not answer:
                return None
            offset, size, version = _FOUND.unpack(answer)
        place.is_large = size >= _LARGE
        return Value(self._client.lent(offset, size, place), version)

    def put(self, key: bytes, value: bytes | bytearray | memoryview) -> int:
        """Writes the value of a key, and returns its new version. Raises `MemoryError` if the server has no memory for it."""
        version = self._write("kv.put", key, value, 0)
        assert version is not None
        return version

    def put_if(self, key: bytes, version: int, value: bytes | bytearray | memoryview) -> int | None:
        """Writes the value only if the key still has this version; 0 means: only if the store does not have the key.

        Returns the new version, or None if the condition does not hold. Raises `MemoryError` if the server has no memory for
        the value.
        """
        return self._write("kv.put_if", key, value, version)

    def delete(self, key: bytes) -> int | None:
        """Removes a key. Returns the version that it had, or None if the store did not have the key."""
        with self._call("kv.delete", key, _VERSION.size) as call:
            return _version(call.answer())

    def close(self) -> None:
        """Closes the connection. Values that were read stay valid until they are closed."""
        self._client.close()

    def _write(
        self, method: str, key: bytes, value: bytes | bytearray | memoryview, version: int
    ) -> int | None:
        bytes_of = memoryview(value).cast("B")
        with self._call(method, key, _VERSION.size, value=bytes_of, version=version) as call:
            try:
                return _version(call.answer())
            except rpc.Refused as refused:
                if refused.number == _FULL:
                    raise MemoryError(f"{refused.peer} has no memory for the value") from refused
                raise

    def _read(self, key: bytes) -> Value | None:
        room = _USUAL
        while True:
            call = self._call("kv.read", key, _VERSION.size + room)
            try:
                answer = call.answer()
            except rpc.NoRoom as short:
                call.close()
                room = short.needed
                continue
            version = _version(answer[: _VERSION.size])
            return None if version is None else Value(answer[_VERSION.size :], version, call)

    def _call(
        self,
        method: str,
        key: bytes,
        room: int,
        place: int = 0,
        value: memoryview | bytes = b"",
        version: int = 0,
    ) -> rpc.Call:
        return _call(self._client, method, (len(key), place, len(value), version), (key, value), room)


def _call(
    client: rpc.Client,
    method: str,
    header: tuple[int, int, int, int],
    parts: tuple[bytes, memoryview | bytes],
    room: int,
) -> rpc.Call:
    if len(parts[0]) > 256:
        raise ValueError(f"a key of {len(parts[0])} bytes: at most 256")
    call = client.call(method, _HEADER.size + sum(map(len, parts)), room)
    _HEADER.pack_into(call.body, 0, *header)
    at = _HEADER.size
    for part in parts:
        call.body[at : at + len(part)] = part
        at += len(part)
    return call


def _version(answer: memoryview) -> int | None:
    return _VERSION.unpack(answer)[0] if answer else None


class _Place:
    """A numbered place, in which the server keeps one value for this client until a get puts another value there."""

    def __init__(self, places: "_Places", number: int) -> None:
        self.number = number
        self.is_large = False
        self._places = places

    def __del__(self) -> None:
        self._places.free(self.number, self.is_large)


class _Places:
    """The free places of a connection, whose values the client does not use any more. The last one freed is reused first."""

    def __init__(self, client: rpc.Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._free: list[int] = []
        self._next = 0

    def take(self) -> _Place:
        # list.pop is atomic. The lock cannot guard the list, because __del__ may run while this thread holds the lock.
        try:
            return _Place(self, self._free.pop())
        except IndexError:
            pass
        with self._lock:
            number = self._next
            if number < _MOST_PLACES:
                self._next += 1
                return _Place(self, number)
        raise BufferError(f"{_MOST_PLACES} values are being read: close some")

    def free(self, number: int, large: bool) -> None:
        if large:
            try:
                _call(self._client, "kv.let_go", (0, number, 0, 0), (b"", b""), 0).send()
            except (rpc.Error, ValueError):
                # The release is best-effort: the next get in this place reports the error.
                pass
        self._free.append(number)


def connect(
    pool: str | os.PathLike[str] | None = None,
    name: str = "kv",
    *,
    waiting: Waiting = "adaptive",
    deadline: float | None = None,
    patience: float = 5.0,
) -> Store:
    """Connects to a store by its name. `pool`, `waiting`, `deadline` and `patience` have the meanings that `rpc.connect` documents."""
    return Store(rpc.connect(name, pool, waiting=waiting, deadline=deadline, patience=patience))
