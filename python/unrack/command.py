"""Runs the command `unrack` from Python. The command itself handles signals, process groups and exit statuses."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from unrack.errors import Error, Failed, Lacking, Refused

# Variable with the number of this process, so that the command ends together with it: see crates/app/cli/src/parent.rs and
# crates/app/compare/src/runs/apart.rs.
PARENT = "UNRACK_PARENT"
# Seconds that the command gets to end by itself after Ctrl-C, because a terminal sends Ctrl-C to the command as well.
_GRACE = 0.5


def command_path() -> str:
    """Returns the path of the command `unrack`. Raises `Lacking` if the command is not found.

    The first of these that exists is used: the value of the variable `UNRACK`, `unrack` in the folder of this interpreter,
    `unrack` on `PATH`.
    """
    named = os.environ.get("UNRACK")
    beside = Path(sys.executable).parent / "unrack"
    found = named or (str(beside) if beside.exists() else shutil.which("unrack"))
    if found is None:
        raise Lacking(
            "the command `unrack` is neither in the folder of this Python nor on PATH: set UNRACK to its path"
        )
    return found


def execute(
    arguments: Sequence[str],
    *,
    stdin: str | None = None,
    stdout: int | IO[str] | None = subprocess.PIPE,
    passes_status: bool = False,
    quiet: bool = False,
) -> tuple[str, int]:
    """Runs the command `unrack`, and returns its output and exit status. Its messages are copied to stderr, unless `quiet`.

    The command ends when this process ends, even if this process is killed. If the exit status is not 0, raises the matching
    error: `Refused` for 2, `Lacking` for 3, `Failed` for any other. With `passes_status`, statuses other than 2 and 3 are
    returned instead.
    """
    child: subprocess.Popen[str] | None = None
    listener: threading.Thread | None = None
    said: list[str] = []
    status = 0
    try:
        child = _started([command_path(), *arguments], stdin, stdout)
        listener = threading.Thread(target=_pass_on, args=(child.stderr, said, quiet), daemon=True)
        listener.start()
        output, status = _communicate(child, stdin)
    except BaseException:
        if child is not None:
            _end(child)
        raise
    finally:
        if listener is not None:
            listener.join(timeout=1)
        _close(child)
    if status == 0 or (passes_status and status not in (2, 3)):
        return output, status
    raise _error(status, said)


def _started(
    command: Sequence[str], stdin: str | None, stdout: int | IO[str] | None
) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            stdin=None if stdin is None else subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, PARENT: str(os.getpid())},
        )
    except OSError as why:
        if why.errno == errno.E2BIG:
            raise Refused(f"the arguments are too long for a command: {why.strerror}") from why
        raise Lacking(
            f"cannot start {command[0]}: {why.strerror}: set UNRACK to the path of the command"
        ) from why
    except ValueError as why:
        # An argument has a zero byte, or text that the encoding of file names cannot represent.
        raise Refused(f"an argument cannot be given to a command: {why}") from why


def _close(child: subprocess.Popen[str] | None) -> None:
    for pipe in () if child is None else (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _communicate(child: subprocess.Popen[str], stdin: str | None) -> tuple[str, int]:
    if child.stdin is not None and stdin is not None:
        try:
            child.stdin.write(stdin)
            child.stdin.close()
        except BrokenPipeError:
            pass
    output = "" if child.stdout is None else child.stdout.read()
    return output, child.wait()


def _pass_on(lines: IO[str] | None, said: list[str], quiet: bool) -> None:
    try:
        for line in lines or ():
            said.append(line)
            if not quiet:
                sys.stderr.write(line)
    except ValueError:
        # The other thread closed the pipe, because a grandchild still holds its write end and the pipe would not end.
        return


def _end(child: subprocess.Popen[str]) -> None:
    """Ends the command and waits for its end: first a short grace period, then SIGINT, then SIGKILL.

    Another Ctrl-C during the wait kills the command at once.
    """
    try:
        for number in (None, signal.SIGINT, signal.SIGKILL):
            if number is not None:
                child.send_signal(number)
            try:
                child.wait(_GRACE if number is None else 10)
                return
            except subprocess.TimeoutExpired:
                continue
    except BaseException:
        child.kill()
        raise


def _error(status: int, said: list[str]) -> Error:
    starts = [place for place, line in enumerate(said) if line.startswith("unrack: ")]
    text = "".join(said[starts[-1] :] if starts else said[-20:]).removeprefix("unrack: ").strip()
    text = text or f"`unrack` ended with status {status}"
    match status:
        case 2:
            return Refused(text)
        case 3:
            return Lacking(text)
        case _:
            return Failed(text)
