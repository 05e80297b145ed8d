"""Calls by reference over shared memory: the client and the server read each other's messages in place, without a copy.

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

If the caller names no pool, the pool of the current user is used, which `unrack pool serve` serves. Its socket is
`$XDG_RUNTIME_DIR/unrack/pool.sock`; without that variable, it is `unrack-USER/pool.sock` in the folder of temporary files, where
USER is the user's number.

This package calls the C library through ctypes, so no compiler is needed. The variable `UNRACK_RPC_LIBRARY` names the library;
without it, `libunrack_rpc.so.0` is loaded from the folder where the wheel or `make install` put it, or from the system's library
path. The interpreter lock is released during a wait. A wait on the main thread still handles signals, so Ctrl-C ends it.

In asyncio, a task awaits an answer with `await request.wait()`. `unrack.kv` is a client of the store `unrack-kv`.

A connection belongs to the process that created it. A forked child that uses a connection of its parent gets `Invalid`; it has to
connect for itself.
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
