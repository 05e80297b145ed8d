"""Verbs that this process evaluates itself, so that it can show progress and handle Ctrl-C; the command performs the runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unrack import _native
from unrack.command import command_path
from unrack.progress import shown

# Native function of each verb that this process evaluates. It returns the JSON that the command prints with `--json`.
_ASKED: Mapping[str, Callable[..., str]] = {"compare": _native.compare, "map": _native.map}
# Progress steps of the native code per percent of the bar.
_SCALE = 10.0


def is_asked_here(verb: Sequence[str], options: Mapping[str, Any]) -> bool:
    """Returns whether this process evaluates a verb itself, instead of running the command for it.

    The command is run in two cases. With `--access` other than `pages`, QEMU records the program, and needs the signals and the
    terminal as the command has them. With `--fail-if`, the exit status of the command is the result of the expression.
    """
    if options.get("--fail-if") is not None or options.get("--access") not in (None, "pages"):
        return False
    return len(verb) == 1 and verb[0] in _ASKED


def ask(verb: str, options: Mapping[str, Sequence[str]], command: Sequence[str]) -> str:
    """Evaluates a verb in this process, and returns its result as JSON. The keys of `options` are their names without dashes."""
    known = {name: list(values) for name, values in options.items() if name != "access"}
    with shown(verb, "%", None, _SCALE) as show:
        return _ASKED[verb](command_path(), list(command), known, show)
