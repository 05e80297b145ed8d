"""Calls by reference: a request is written where the server reads it, an answer read where it was written.

    import numpy as np
    from unrack import rpc

    with rpc.Server("adder") as server:

        @server.method("sum")
        def add(call: rpc.Incoming) -> None:
            total = np.frombuffer(call.request, np.uint64).sum()
            np.frombuffer(call.answer(8), np.uint64)[0] = total

        server.start()

        with rpc.connect("adder") as client, client.call("sum", 8 * 1000) as request:
            np.frombuffer(request.body, np.uint64)[:] = range(1000)
            print(int.from_bytes(request.answer(), "little"))

A pool that is not named is the user's own, as of `unrack pool serve`: `$XDG_RUNTIME_DIR/unrack/pool.sock`; without that
variable, `unrack-USER/pool.sock` in the folder of temporary files, where USER is the user's number.

The library is found by `UNRACK_RPC_LIBRARY`, or as `libunrack_rpc.so.0` where the wheel or `make install` put it, or the system looks.
A task of asyncio awaits an answer by `await request.wait()`; `unrack.kv` is a client of the store `unrack-kv`.
It is called by ctypes: nothing has to be compiled, and the interpreter lock is released while it waits. On the main thread
signals are handled meanwhile, so Ctrl-C ends every wait.

A connection belongs to the process that made it: a child by fork is refused its parent's (`Invalid`), and connects for itself.
"""

from unrack.rpc.client import Call, Client, Parts, connect
from unrack.rpc.errors import (
    Deadline,
    Error,
    Exhausted,
    Failed,
    Gone,
    InternalError,
    Invalid,
    NoPool,
    NoRoom,
    NoService,
    PoolError,
    ProtocolError,
    Refused,
    TooLong,
    UnknownMethod,
    VersionMismatch,
)
from unrack.rpc.server import Incoming, Refusal, Server

__all__ = [
    "Call",
    "Client",
    "Deadline",
    "Error",
    "Exhausted",
    "Failed",
    "Gone",
    "Incoming",
    "InternalError",
    "Invalid",
    "NoPool",
    "NoRoom",
    "NoService",
    "Parts",
    "PoolError",
    "ProtocolError",
    "Refusal",
    "Refused",
    "Server",
    "TooLong",
    "UnknownMethod",
    "VersionMismatch",
    "connect",
]
