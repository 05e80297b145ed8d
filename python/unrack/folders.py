"""Temporary folders that go with what holds them."""

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
    """A temporary folder. It is removed with this object, at the end of a `with`, or when Python ends.

    Only the process that made it removes it. A child by fork has a copy of this object, and runs its finalizers when it ends;
    a process that unpickles it names the same folder, which lasts as long as the first process needs it.
    """

    def __init__(self) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix="unrack-"))
        except OSError as why:
            raise NotWritten.because("a temporary folder", why, _HINT) from why
        self._end = weakref.finalize(self, _remove, self.path, os.getpid())

    def remove(self) -> None:
        """Removes the folder now, unless another process made it."""
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
    """Returns a folder that another process made and removes."""
    folder = Folder.__new__(Folder)
    folder.path = path
    folder._end = weakref.finalize(folder, _remove, path, -1)
    return folder
