"""What can go wrong with a call, and with whom."""

from unrack import errors


class Error(errors.Error):
    """Why there is no answer: `cause` says it in a line, `peer` with which process, if with any."""

    def __init__(self, cause: str, peer: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.peer = peer


class Invalid(Error, ValueError):
    """An argument is wrong, it is not the time for this, or the connection is of the parent process, before a fork."""


class NoPool(Error, ConnectionError):
    """No manager serves the pool, or it is gone."""


class NoService(Error, LookupError):
    """No service has this name."""


class PoolError(Error):
    """The pool does not do what it was asked: it is full, the name is taken, the service refused."""


class VersionMismatch(Error):
    """The peer speaks another version of the protocol, or another protocol."""


class TooLong(Error, ValueError):
    """More bytes than a message can have."""


class Exhausted(Error):
    """Calls that the server takes at a time are all under way, or it has no memory left for more."""


class Deadline(Error, TimeoutError):
    """No answer in time. `under_way`: only this wait is over, and the call goes on."""

    under_way: bool = False


class Gone(Error, ConnectionError):
    """The peer is gone."""


class UnknownMethod(Error, LookupError):
    """The peer has no method of this name."""


class NoRoom(Error):
    """The answer is longer than the call has room for: it has `needed` bytes."""

    needed: int


class Failed(Error):
    """The handler failed."""


class Refused(Error):
    """The handler refused, with a `number` that client and service know."""

    number: int


class ProtocolError(Error):
    """The peer breaks the protocol."""


class InternalError(Error):
    """A fault of the library, or the machine has no threads left."""


# By the status of the C library.
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
