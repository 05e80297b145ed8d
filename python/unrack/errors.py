"""Exceptions of the package. They are one family: `except unrack.Error` catches all of them, those of `unrack.rpc` too.

| exception | is also a | exit status of the command | what to do |
|---|---|---|---|
| `Refused` | `ValueError` | 2 | correct the scenario or the argument: the text names it |
| `WrongType` | `Refused`, `TypeError` | 2 | the same: the argument has a type that cannot be read |
| `Failed` | `RuntimeError` | 1 | read the text: a run began and failed |
| `NotWritten` | `Failed`, `OSError` | 1 | make room, or name a folder that can be written; `errno` is the system's |
| `Lacking` | `OSError` | 3 | `unrack.doctor()` lists what the machine lacks, and how to get it |
"""

from typing import Self


class Error(Exception):
    """Any failure of Unrack. Its text says what is wrong, where, and what to do."""


class Refused(Error, ValueError):
    """A scenario or an argument is wrong (exit status 2)."""


class WrongType(Refused, TypeError):
    """An argument has a type that cannot be read, such as an object where a number is expected (exit status 2)."""


class Failed(Error, RuntimeError):
    """A run began and failed (exit status 1)."""


class NotWritten(Failed, OSError):
    """A file or a folder cannot be written: the disk is full, or writing is not permitted (exit status 1)."""

    def __new__(cls, *args: object) -> Self:
        # RuntimeError comes first among the bases, but only OSError can make it. Dask unpickles exceptions by this.
        return OSError.__new__(cls, *args)

    @classmethod
    def because(cls, path: object, why: OSError, hint: str) -> Self:
        """Returns the error of a path. It has the number (`errno`) of the system's error."""
        error = cls(f"cannot write {path}: {why.strerror or why}: {hint}")
        error.errno, error.filename = why.errno, str(path)
        return error

    def __str__(self) -> str:
        # With a number, OSError has a text of its own.
        return str(self.args[0]) if self.args else ""


class Lacking(Error, OSError):
    """The machine lacks something that is needed (exit status 3); `unrack.doctor()` says more."""
