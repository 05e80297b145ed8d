"""Exceptions of the package. All derive from `unrack.Error`, those of `unrack.rpc` included.

| exception | is also a | exit status of the command | what to do |
|---|---|---|---|
| `Refused` | `ValueError` | 2 | correct the scenario or the argument that the text names |
| `WrongType` | `Refused`, `TypeError` | 2 | correct the argument: its type cannot be read |
| `Failed` | `RuntimeError` | 1 | read the text: a run began and failed |
| `NotWritten` | `Failed`, `OSError` | 1 | free disk space, or name a writable folder; `errno` is the system's error number |
| `Lacking` | `OSError` | 3 | call `unrack.doctor()`: it lists what the machine lacks, and how to get it |
"""

from typing import Self


class Error(Exception):
    """Base of all exceptions of Unrack. The text describes the error, where it is, and how to correct it."""


class Refused(Error, ValueError):
    """A scenario or an argument is wrong (exit status 2)."""


class WrongType(Refused, TypeError):
    """An argument has a type that cannot be read, such as an object where a number is expected (exit status 2)."""


class Failed(Error, RuntimeError):
    """A run began and failed (exit status 1)."""


class NotWritten(Failed, OSError):
    """A file or a folder cannot be written: the disk is full, or writing is not permitted (exit status 1)."""

    def __new__(cls, *args: object) -> Self:
        # RuntimeError precedes OSError among the bases, but only OSError.__new__ can create this object. Dask calls __new__ when it
        # unpickles an exception.
        return OSError.__new__(cls, *args)

    @classmethod
    def because(cls, path: object, why: OSError, hint: str) -> Self:
        """Returns the error for a path that cannot be written, with the `errno` of the system's error and a hint for the user."""
        error = cls(f"cannot write {path}: {why.strerror or why}: {hint}")
        error.errno, error.filename = why.errno, str(path)
        return error

    def __str__(self) -> str:
        # If `errno` is set, OSError.__str__ would compose a different text.
        return str(self.args[0]) if self.args else ""


class Lacking(Error, OSError):
    """The machine lacks a requirement, such as memory or a program (exit status 3). `unrack.doctor()` lists what it lacks."""
