"""The command `unrack`, started by Python: signals, process groups and exit statuses are the command's own."""

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

# Names this process to the command, which ends with it: crates/app/cli/src/parent.rs and crates/app/compare/src/runs/apart.rs.
PARENT = "UNRACK_PARENT"
# Seconds in which a command ends by itself after Ctrl-C, which a terminal sends to it as well.
_GRACE = 0.5


def command_path() -> str:
    """Returns the command: that which `UNRACK` names, that beside this interpreter, or that on `PATH`.

    Raises `Lacking` if there is none.
    """
    named = os.environ.get("UNRACK")
    beside = Path(sys.executable).parent / "unrack"
    found = named or (str(beside) if beside.exists() else shutil.which("unrack"))
    if found is None:
        raise Lacking(
            "the command `unrack` is not beside this Python, and not on PATH: set UNRACK to its path"
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
    """Runs the command, and returns its output and exit status. Its messages appear on stderr.

    The command ends with this process, however that ends. Raises the error that its status stands for; with `passes_status`,
    statuses other than 2 and 3 are returned. With `quiet`, messages do not appear.
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
        # A zero byte, or text that no file name of this system has.
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
        # Closed by the other thread: a grandchild still holds it.
        return


def _end(child: subprocess.Popen[str]) -> None:
    """Ends the command, and waits until it has ended. Another Ctrl-C meanwhile kills it."""
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
