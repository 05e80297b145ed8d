"""The command `unrack`, started by Python: signals, process groups and exit statuses are the command's own."""

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

    Raises the error that its status stands for; with `passes_status`, statuses other than 2 and 3 are returned. With
    `quiet`, messages do not appear.
    """
    child = subprocess.Popen(
        [command_path(), *arguments],
        stdin=None if stdin is None else subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    said: list[str] = []
    listener = threading.Thread(target=_pass_on, args=(child.stderr, said, quiet), daemon=True)
    listener.start()
    try:
        output, _ = _communicate(child, stdin)
    except BaseException:
        _end(child)
        raise
    finally:
        listener.join(timeout=1)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
    status = child.returncode
    if status == 0 or (passes_status and status not in (2, 3)):
        return output, status
    raise _error(status, said)


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
    for number in (None, signal.SIGINT, signal.SIGKILL):
        if number is not None:
            child.send_signal(number)
        try:
            child.wait(_GRACE if number is None else 10)
            return
        except subprocess.TimeoutExpired:
            continue


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
