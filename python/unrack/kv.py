"""A client of the key-value store `unrack-kv`: a get copies nothing, and its value is read where it lies.

    from unrack import kv

    with kv.connect() as store:
        store.put(b"key", b"value")
        with store.get(b"key") as value:
            print(bytes(value.body), value.version)

Over a pool, the server lends its values to be read only. One that is read stays as it is, and where it is, until the value
is closed and nothing is left that was made of its body. Over TCP values are copies, by the same calls.
"""

import os
import struct
import threading

from unrack import rpc
from unrack.closing import Closing
from unrack.rpc.native import Waiting

# Key's bytes, place, value's bytes, version: as in crates/pool/kv/src/wire.rs.
_HEADER = struct.Struct("<HHIQ")
_FOUND = struct.Struct("<QQQ")
_VERSION = struct.Struct("<Q")
_MOST_PLACES = 1024
_FULL = 1
# From this length on, a value that is not read any more is let go at once.
_LARGE = 64 << 10
# Room for a value that is copied, at first.
_USUAL = 4 << 10


class Value(Closing):
    """A value: its bytes (`body`, to be read only) and its `version`. Versions of a store only grow."""

    def __init__(self, body: memoryview, version: int, call: rpc.Call | None = None) -> None:
        self.body = body
        self.version = version
        self._call = call

    def close(self) -> None:
        """The value is not read any more. Arrays and slices of its body still keep it."""
        try:
            self.body.release()
        except BufferError:
            # An array is made of it.
            pass
        if self._call is not None:
            self._call.close()


class Store(Closing):
    """A connection to a store, which threads may share. See `connect`."""

    def __init__(self, client: rpc.Client) -> None:
        self._client = client
        self._places = _Places(client)

    def get(self, key: bytes) -> Value | None:
        """The value of a key, if there is one. As many as 1,024 can be read at a time."""
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
        """Writes a value, and gives its version."""
        version = self._write("kv.put", key, value, 0)
        assert version is not None
        return version

    def put_if(self, key: bytes, version: int, value: bytes | bytearray | memoryview) -> int | None:
        """As `put`, if the key still has this version; 0: if there is no such key. Gives the new version, or None."""
        return self._write("kv.put_if", key, value, version)

    def delete(self, key: bytes) -> int | None:
        """Removes a key. Gives the version that it had, if it was there."""
        with self._call("kv.delete", key, _VERSION.size) as call:
            return _version(call.answer())

    def close(self) -> None:
        """Values that are read stay."""
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
    """What the server holds a value by, until the next value is got into it."""

    def __init__(self, places: "_Places", number: int) -> None:
        self.number = number
        self.is_large = False
        self._places = places

    def __del__(self) -> None:
        self._places.free(self.number, self.is_large)


class _Places:
    """Places that hold nothing which is read: the one that was used last is used first."""

    def __init__(self, client: rpc.Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._free: list[int] = []
        self._next = 0

    def take(self) -> _Place:
        # A list's pop is one step; the lock is not for __del__, which may run inside of it.
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
                # The next get into the place says it.
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
    """Connects to a store by its name; pool, waiting, deadline and patience are those of `rpc.connect`."""
    return Store(rpc.connect(name, pool, waiting=waiting, deadline=deadline, patience=patience))
