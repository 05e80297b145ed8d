"""Arrow tables in the pool: written once, and read by any number of processes where they lie.

    import pyarrow
    from unrack import arrow

    # The owner.
    with arrow.serve("trips") as tables:
        tables["2024"] = pyarrow.table({"miles": [1.5, 2.5]})
        ...

    # Readers, in other processes.
    with arrow.connect("trips") as tables:
        print(tables["2024"].column("miles"))

A table is copied into the pool when it is set, as an Arrow stream in one buffer. Readers get a `pyarrow.Table` whose buffers are
that memory, mapped read-only. It stays as it is, and where it is, until the last of its Arrow buffers is gone in every reader:
also when the owner sets another table under the name, deletes it, closes or is killed, and when the reader closes its connection.

A reader trusts the owner, who has the memory mapped too: of one that is not trusted, `table.validate(full=True)` checks the
table as it is at that moment only.
"""

import os
import struct
import threading
from collections.abc import Iterator, MutableMapping

import pyarrow as pa

from unrack import lend, rpc
from unrack.closing import Closing

__all__ = ["Reader", "Tables", "connect", "serve"]

# Request: kind, and bytes of the name that follows. Answer: found or not, and bytes that follow.
_REQUEST = struct.Struct("<BI")
_ANSWER = struct.Struct("<BQ")
_GET, _NAMES = 1, 2
_MOST_NAME = 64 << 10


class Tables(MutableMapping[str, pa.Table], Closing):
    """Tables that this process serves. See `serve`."""

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
        """Copies a table into the pool. Who reads the one that had the name keeps that."""
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
        """Gives the table as readers get it: its buffers are the pool's."""
        with self._locked():
            return _table(self._tables[name].body.toreadonly())

    def __delitem__(self, name: str) -> None:
        """Takes the table back from those who ask later. Those who read it keep it."""
        with self._locked():
            del self._tables[name]

    def __iter__(self) -> Iterator[str]:
        with self._locked():
            return iter(list(self._tables))

    def __len__(self) -> int:
        return len(self._tables)

    def close(self) -> None:
        """Serves no longer. Tables that are read stay until they are not read any more."""
        if self._endpoint.is_inherited:
            # The parent process serves them.
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
        """The lock; a child by fork has its parent's, which may be locked for ever."""
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
                    # The pool's manager is gone; peers that there are need none.
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
    """Tables of another process, which threads may share. See `connect`."""

    def __init__(self, link: lend.Link) -> None:
        self._link = link
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> pa.Table:
        """Gives a table, whose buffers are the owner's memory."""
        encoded = name.encode()
        if len(encoded) > _MOST_NAME:
            # No table has such a name.
            raise KeyError(name)
        packed = self._ask(_GET, encoded)
        if packed is None:
            raise KeyError(name)
        return _table(self._link.receive(lend.Reference.unpack(packed)))

    def __iter__(self) -> Iterator[str]:
        names = self._ask(_NAMES, b"")
        return iter([] if names is None else names.decode().split("\0"))

    def close(self) -> None:
        """Ends the connection. Tables stay."""
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
                # By Ctrl-C, say: what is still to come would be taken for the answer to the next request.
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
    """Serves tables under a name, over the pool at a socket (None: the user's own): none yet, to be set as in a dict."""
    return Tables(name, pool)


def connect(name: str, pool: str | os.PathLike[str] | None = None, *, patience: float = 5.0) -> Reader:
    """Connects to the tables of another process by their name, over the pool at a socket (None: the user's own)."""
    return Reader(lend.Endpoint(pool).open(name, patience=patience))


def _size(table: pa.Table) -> int:
    """Bytes of the stream, without a copy."""
    counter = pa.MockOutputStream()
    with pa.ipc.new_stream(counter, table.schema) as stream:
        stream.write_table(table)
    return int(counter.size())


def _table(body: memoryview) -> pa.Table:
    """The table of a stream: its buffers are the body's memory, and keep it."""
    return pa.ipc.open_stream(pa.py_buffer(body)).read_all()


def _receive(link: lend.Link, size: int) -> bytes | None:
    """So many bytes of the stream, or None at its end."""
    received = b""
    while len(received) < size:
        more = link.stream.recv(size - len(received))
        if not more:
            return None
        received += more
    return received
