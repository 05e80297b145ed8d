"""What can go wrong, told apart as the command's exit statuses tell it."""


class Error(Exception):
    """Any failure of Unrack. Its text says what is wrong, where, and what to do."""


class Refused(Error, ValueError):
    """A scenario or an argument is wrong (exit status 2)."""


class Failed(Error, RuntimeError):
    """A run began and failed (exit status 1)."""


class Lacking(Error, OSError):
    """The machine lacks something that is needed (exit status 3); `unrack.doctor()` says more."""
