"""Temporary folders that go with what holds them."""

import shutil
import tempfile
import weakref
from pathlib import Path


class Folder:
    """A folder that is removed with this object, or when Python ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="unrack-"))
        self._end = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
