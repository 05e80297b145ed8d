"""Exceptions of calls. Each has the cause and, if one is involved, the peer."""

from unrack import errors


class Error(errors.Error):
    """Base of the exceptions of calls.

    Attributes:
        cause: One line that describes the error.
        peer: Description of the process at the other end, or None if no process is involved.
    """

    def __init__(self, cause: str, peer: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.peer = peer


class Invalid(Error, ValueError):
    """An argument is invalid, the operation is not allowed in this state, or a forked child uses a connection of its parent."""


class NoPool(Error, ConnectionError):
    """No manager serves the pool, or its manager has ended."""


class NoService(Error, LookupError):
    """No service is registered under this name."""


class PoolError(Error):
    """The pool rejects a request: for example because it is full, the name is taken, or the service refuses the connection."""


class VersionMismatch(Error):
    """The peer speaks another version of the protocol, or another protocol."""


class TooLong(Error, ValueError):
    """The message is longer than the protocol allows."""


class Exhausted(Error):
    """The maximum number of calls is in flight, or no memory is left for another call."""


class Deadline(Error, TimeoutError):
    """The answer did not arrive in time. If `under_way` is true, only this wait ended, and the call is still in flight."""

    under_way: bool = False


class Gone(Error, ConnectionError):
    """The peer has ended or has closed the connection."""


class UnknownMethod(Error, LookupError):
    """The peer has no method of this name."""


class NoRoom(Error):
    """The answer does not fit into the room that the call has for it. `needed` is the length of the answer in bytes."""

    needed: int


class Failed(Error):
    """The server's handler failed."""


class Refused(Error):
    """The server's handler refused the call, with a `number` whose meaning the service defines."""

    number: int


class ProtocolError(Error):
    """The peer violated the protocol."""


class InternalError(Error):
    """The library has a bug, or the machine cannot create another thread."""


# Exception class of each status of the C library.
BY_STATUS: dict[int, type[Error]] = {
    1: Invalid,
    2: NoPool,
    3: NoService,
    4: PoolError,
    5: VersionMismatch,
    6: TooLong,
    7: Exhausted,
    8: Deadline,
    9: Gone,
    10: UnknownMethod,
    11: NoRoom,
    12: Failed,
    13: Refused,
    14: ProtocolError,
    15: InternalError,
}
