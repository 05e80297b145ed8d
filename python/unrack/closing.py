"""Base class of objects that a `with` block closes at its end."""

from types import TracebackType
from typing import Self


class Closing:
    """Base of classes with a `close` method: makes them context managers that close at the end of the `with` block."""

    def close(self) -> None:
        """Releases the resources that this object holds."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()
