"""Blocks that close what they begin with."""

from types import TracebackType
from typing import Self


class Closing:
    """Base of what has a `close`: a `with` block closes it at its end."""

    def close(self) -> None:
        """Gives up what this holds."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()
