"""Temporary folders that are removed together with the object that owns them."""

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from types import TracebackType
from typing import Self

from unrack.errors import NotWritten

_HINT = "make room there, or set TMPDIR to another folder"


class Folder:
    """A temporary folder. It is removed when this object is freed, at the end of a `with` block, or when Python ends.

    Only the process that created the folder removes it. This check is needed because a forked child has a copy of this object
    and runs its finalizer at exit. A process that unpickles this object refers to the same folder, which exists as long as the
    process that created it needs it.
    """

    def __init__(self) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix="unrack-"))
        except OSError as why:
            raise NotWritten.because("a temporary folder", why, _HINT) from why
        self._end = weakref.finalize(self, _remove, self.path, os.getpid())

    def remove(self) -> None:
        """Removes the folder now, unless another process created it."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.remove()

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _elsewhere, (self.path,)


def _remove(path: Path, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(path, ignore_errors=True)


def _elsewhere(path: Path) -> Folder:
    """Returns a `Folder` for a path that another process created and will remove."""
    folder = Folder.__new__(Folder)
    folder.path = path
    folder._end = weakref.finalize(folder, _remove, path, -1)
    return folder
