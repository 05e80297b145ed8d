"""Questions about a program that are asked in this process, with progress and Ctrl-C; the command makes the runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unrack import _native
from unrack.command import command_path
from unrack.progress import shown

# Questions by their verb; the answer is what the command prints with `--json`.
_ASKED: Mapping[str, Callable[..., str]] = {"compare": _native.compare, "map": _native.map}
# Steps of one percent.
_SCALE = 10.0


def is_asked_here(verb: Sequence[str], options: Mapping[str, Any]) -> bool:
    """Returns whether this process asks the question itself.

    The command asks where QEMU records the program, whose run claims signals and the terminal as the command has them, and where an
    expression judges the answer, since the exit status of the command is what says that it holds.
    """
    if options.get("--fail-if") is not None or options.get("--access") not in (None, "pages"):
        return False
    return len(verb) == 1 and verb[0] in _ASKED


def ask(verb: str, options: Mapping[str, Sequence[str]], command: Sequence[str]) -> str:
    """Asks a question, and returns the answer as JSON. `options` are by their names without dashes."""
    known = {name: list(values) for name, values in options.items() if name != "access"}
    with shown(verb, "%", None, _SCALE) as show:
        return _ASKED[verb](command_path(), list(command), known, show)
