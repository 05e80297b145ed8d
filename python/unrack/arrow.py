"""Arrow tables in shared memory: the owner writes a table once, and any number of processes read it in place.

    import pyarrow
    from unrack import arrow

    # The owner.
    with arrow.serve("trips") as tables:
        tables["2024"] = pyarrow.table({"miles": [1.5, 2.5]})
        ...

    # Readers, in other processes.
    with arrow.connect("trips") as tables:
        print(tables["2024"].column("miles"))

When the owner sets a table, it is copied into one buffer of the pool as an Arrow stream. A reader gets a `pyarrow.Table` whose
buffers lie in that memory, which the reader maps read-only. The table stays valid and unchanged until no reader holds any of its
Arrow buffers any more. This remains true if the owner replaces or deletes the table, closes, or is killed, and if the reader
closes its connection.

A reader has to trust the owner, because the owner also has the memory mapped and can write to it. `table.validate(full=True)`
does not remove this need: it checks the table only as it is at that moment.
"""

import os
import struct
import threading
from collections.abc import Iterator, MutableMapping

import pyarrow as pa

from unrack import lend, rpc
from unrack.closing import Closing

__all__ = ["Reader", "Tables", "connect", "serve"]

# Request: its kind, and the length of the name that follows. Answer: whether the table was found, and the length of the data that follows.
_REQUEST = struct.Struct("<BI")
_ANSWER = struct.Struct("<BQ")
_GET, _NAMES = 1, 2
_MOST_NAME = 64 << 10


class Tables(MutableMapping[str, pa.Table], Closing):
    """Tables that this process serves to readers, as a mapping from names to tables. See `serve`."""

    def __init__(self, name: str, pool: str | os.PathLike[str] | None) -> None:
        self._endpoint = lend.Endpoint(pool)
        self._lock = threading.Lock()
        self._tables: dict[str, lend.Buffer] = {}
        self._links: set[lend.Link] = set()
        self._closed = False
        self._listener = self._endpoint.listen(name)
        self._wake, self._woken = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._accept, name=f"arrow {name}", daemon=True)
        self._thread.start()

    def __setitem__(self, name: str, table: pa.Table | pa.RecordBatch) -> None:
        """Copies a table into the pool under a name. Readers of an earlier table of this name keep the earlier one.

        Raises `ValueError` if the name is empty or longer than 64 KiB, or if the tables are closed.
        """
        if not 0 < len(name.encode()) <= _MOST_NAME:
            raise ValueError(f"a name has 1 to {_MOST_NAME} bytes")
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        buffer = self._endpoint.buffer(_size(table))
        with pa.ipc.new_stream(pa.FixedSizeBufferWriter(pa.py_buffer(buffer.body)), table.schema) as stream:
            stream.write_table(table)
        with self._lock:
            self._check()
            self._tables[name] = buffer

    def __getitem__(self, name: str) -> pa.Table:
        """Returns a table as readers get it, with its buffers in the pool. Raises `KeyError` if no table has this name."""
        with self._locked():
            return _table(self._tables[name].body.toreadonly())

    def __delitem__(self, name: str) -> None:
        """Removes the table, so that later requests do not find it. Readers that already have it keep it."""
        with self._locked():
            del self._tables[name]

    def __iter__(self) -> Iterator[str]:
        with self._locked():
            return iter(list(self._tables))

    def __len__(self) -> int:
        with self._locked():
            return len(self._tables)

    def close(self) -> None:
        """Stops serving the tables. A table that a reader still holds stays valid until the reader drops it."""
        if self._endpoint.is_inherited:
            # This process is a forked child: its parent continues to serve the tables.
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._tables.clear()
            os.close(self._woken)
            for link in self._links:
                link.stream.shutdown(2)
        self._thread.join()
        self._listener.close()
        self._endpoint.close()
        os.close(self._wake)

    def _locked(self) -> threading.Lock:
        """Returns the lock. Raises `Invalid` in a forked child, because the copy of its parent's lock may stay locked forever."""
        if not self._closed:
            self._endpoint.check_process()
        return self._lock

    def _check(self) -> None:
        if self._closed:
            raise ValueError("the tables are closed")

    def _accept(self) -> None:
        import selectors

        threads: list[threading.Thread] = []
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not self._closed:
                selector.select()
                try:
                    link = self._listener.try_accept()
                except rpc.Error:
                    # The pool's manager is gone. Connected readers do not need it, so only accepting stops.
                    selector.unregister(self._listener)
                    continue
                if link is None:
                    continue
                with self._lock:
                    if self._closed:
                        link.close()
                        break
                    self._links.add(link)
                threads = [thread for thread in threads if thread.is_alive()]
                threads.append(threading.Thread(target=self._serve, args=(link,), daemon=True))
                threads[-1].start()
        for thread in threads:
            thread.join()

    def _serve(self, link: lend.Link) -> None:
        try:
            while (request := _receive(link, _REQUEST.size)) is not None:
                kind, size = _REQUEST.unpack(request)
                name = _receive(link, size) if size <= _MOST_NAME else None
                if name is None or kind not in (_GET, _NAMES):
                    break
                link.stream.sendall(self._answer(link, kind, name))
        except (OSError, rpc.Error):
            # The peer is gone.
            pass
        finally:
            with self._lock:
                self._links.discard(link)
                link.close()

    def _answer(self, link: lend.Link, kind: int, name: bytes) -> bytes:
        with self._lock:
            if kind == _NAMES:
                names = b"\0".join(name.encode() for name in self._tables)
                return _ANSWER.pack(bool(self._tables), len(names)) + names
            buffer = self._tables.get(name.decode(errors="replace"))
            if buffer is None:
                return _ANSWER.pack(False, 0)
            reference = link.lend(buffer).pack()
            return _ANSWER.pack(True, len(reference)) + reference


class Reader(Closing):
    """Connection to the tables that another process serves. Threads may share it. See `connect`."""

    def __init__(self, link: lend.Link) -> None:
        self._link = link
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> pa.Table:
        """Returns a table whose buffers lie in the owner's memory. Raises `KeyError` if the owner has no table of this name."""
        encoded = name.encode()
        if len(encoded) > _MOST_NAME:
            # The owner accepts no name of this length.
            raise KeyError(name)
        packed = self._ask(_GET, encoded)
        if packed is None:
            raise KeyError(name)
        return _table(self._link.receive(lend.Reference.unpack(packed)))

    def __iter__(self) -> Iterator[str]:
        names = self._ask(_NAMES, b"")
        return iter([] if names is None else names.decode().split("\0"))

    def close(self) -> None:
        """Closes the connection. Tables that were read from it stay valid."""
        self._link.close()

    def _ask(self, kind: int, name: bytes) -> bytes | None:
        self._link.check_process()
        with self._lock:
            try:
                self._link.stream.sendall(_REQUEST.pack(kind, len(name)) + name)
                answer = _receive(self._link, _ANSWER.size)
                found, size = (False, 0) if answer is None else _ANSWER.unpack(answer)
                following = _receive(self._link, size) if size else b""
            except OSError as error:
                raise self._gone() from error
            except BaseException:
                # The wait was interrupted, for example by Ctrl-C. The rest of this answer would be mistaken for the next one.
                self._link.close()
                raise
        if answer is None or following is None:
            raise self._gone()
        return following if found else None

    def _gone(self) -> rpc.Gone:
        process = self._link.process
        return rpc.Gone(
            f"process {process}, which serves the tables, has ended or closed them", f"process {process}"
        )


def serve(name: str, pool: str | os.PathLike[str] | None = None) -> Tables:
    """Starts to serve tables under a name. Returns an empty mapping, in which the caller sets tables as in a dict.

    `pool` is the path of the pool's socket; None selects the pool of the current user.
    """
    return Tables(name, pool)


def connect(name: str, pool: str | os.PathLike[str] | None = None, *, patience: float = 5.0) -> Reader:
    """Connects to the tables that another process serves under a name.

    `pool` is the path of the pool's socket; None selects the pool of the current user. The owner has `patience` seconds to
    accept the connection.
    """
    return Reader(lend.Endpoint(pool).open(name, patience=patience))


def _size(table: pa.Table) -> int:
    """Returns the size of the table's Arrow stream in bytes, without writing the stream."""
    counter = pa.MockOutputStream()
    with pa.ipc.new_stream(counter, table.schema) as stream:
        stream.write_table(table)
    return int(counter.size())


def _table(body: memoryview) -> pa.Table:
    """Returns the table in an Arrow stream. Its buffers lie in `body`, and keep that memory alive."""
    return pa.ipc.open_stream(pa.py_buffer(body)).read_all()


def _receive(link: lend.Link, size: int) -> bytes | None:
    """Receives exactly `size` bytes from the link's stream. Returns None if the stream ends before."""
    received = b""
    while len(received) < size:
        more = link.stream.recv(size - len(received))
        if not more:
            return None
        received += more
    return received
