"""Runs verbs of the command, and holds their results."""

import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fsdecode
from pathlib import Path
from typing import Any

from unrack.command import execute
from unrack.errors import WrongType
from unrack.folders import Folder
from unrack.pictures import html_of_run, pictures_of
from unrack.questions import ask, is_asked_here
from unrack.tables import Table
from unrack.values import is_one

# Types of an argument of the command.
Value = str | int | float | PathLike[str]
Values = Value | Sequence[Value]


class Result(Mapping[str, Any]):
    """Result of a verb: a mapping with the content of the JSON object that the verb prints with `--json`.

    Attributes:
        summary: The JSON object; empty if the verb has no `--json`.
        text: Output of the verb: the JSON text, or the plain text of a verb without `--json`.
        folder: Run folder, or None if the verb writes none. If the caller named no folder, it is a temporary folder, which is
            removed together with this result.
        status: Exit status of the command.
        verb: Name of the verb.
    """

    def __init__(
        self, verb: str, text: str, folder: Path | None, temporary: Folder | None, status: int
    ) -> None:
        self._temporary = temporary
        self.verb = verb
        self.text = text
        self.folder = folder
        self.status = status
        self.summary: Mapping[str, Any] = _object(text)

    def __getitem__(self, key: str) -> Any:
        return self.summary[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.summary)

    def __len__(self) -> int:
        return len(self.summary)

    def __bool__(self) -> bool:
        return True

    @property
    def tables(self) -> list[str]:
        """Names of the tables in the run folder."""
        return [] if self.folder is None else sorted(path.stem for path in self.folder.glob("*.parquet"))

    def table(self, name: str) -> Table:
        """Returns a table of the run folder, such as `trace`.

        Raises `KeyError` if the folder does not have the table, and `Failed` if the table cannot be read.
        """
        if self.folder is None or name not in self.tables:
            raise KeyError(
                f"`unrack {self.verb}` made no table {name}; there are: {', '.join(self.tables) or 'none'}"
            )
        return Table.read(self.folder / f"{name}.parquet")

    def __repr__(self) -> str:
        return f"<unrack.Result of `unrack {self.verb}`: {', '.join(self.summary) or 'text'}>"

    def __str__(self) -> str:
        return self.text if not self.summary else repr(self)

    def _repr_html_(self) -> str:
        rows = {key: value for key, value in self.summary.items() if isinstance(value, str | int | float)}
        return html_of_run(rows, [] if self.folder is None else pictures_of(self.folder))


def called(
    verb: Sequence[str],
    options: Mapping[str, Values | bool | None],
    positional: Sequence[Value] = (),
    *,
    lists: Mapping[str, str | None] = {},
    json_to: str | None = None,
    out: str | None = None,
    trailing: bool = False,
) -> Result:
    """Runs a verb of the command, and returns its result.

    Args:
        verb: Name of the verb, one string for each word.
        options: Values of the options, by flag; None and False leave an option out, True gives only its flag.
        positional: Positional arguments.
        lists: Flags of the options that take several values, with the separator of the values; None repeats the flag.
        json_to: Place where the verb writes JSON: `stdout`, `file`, or None if it writes no JSON.
        out: Flag of the run folder, or None if the verb has none.
        trailing: Whether the positional arguments are a program and its arguments.
    """
    options = dict(options)
    folder, temporary = None, None
    if out is not None:
        if options.get(out) is None:
            temporary = Folder()
            options[out] = temporary.path / "run"
        folder = Path(_text(options[out]))
    if is_asked_here(verb, options):
        texts = {
            flag.removeprefix("--"): _texts(value) for flag, value in options.items() if _is_given(value)
        }
        text = ask(verb[0], texts, [_text(one) for one in positional])
        return Result(verb[0], text, folder, temporary, 0)
    arguments = [*verb]
    for flag, value in options.items():
        arguments += _given(flag, value, lists)
    with Folder() as aside:
        file = aside.path / "result.json"
        if json_to is not None:
            arguments += ["--json"] if json_to == "stdout" else ["--json", str(file)]
        # After `--`, a positional argument that begins with a hyphen is not taken for an option.
        arguments += [*(["--"] if positional else []), *(_text(one) for one in positional)]
        # With JSON in a file, stdout is inherited: the output of the program that the verb runs goes to this process's stdout.
        to = None if json_to == "file" else -1
        text, status = execute(arguments, stdout=to, passes_status=json_to == "file" and trailing)
        if json_to == "file":
            text = file.read_text(encoding="utf-8") if file.exists() else ""
    return Result(" ".join(verb), text, folder, temporary, status)


def _given(flag: str, value: Values | bool | None, lists: Mapping[str, str | None]) -> list[str]:
    if not _is_given(value):
        return []
    if value is True:
        return [flag]
    if flag in lists:
        texts = [_text(one) for one in _sequence(value)]
        between = lists[flag]
        return [f"{flag}={between.join(texts)}"] if between else [f"{flag}={text}" for text in texts]
    return [f"{flag}={_text(value)}"]


def _is_given(value: object) -> bool:
    return value is not None and value is not False


def _texts(value: Any) -> list[str]:
    return [] if value is True else [_text(one) for one in _sequence(value)]


def _sequence(value: Any) -> Sequence[Value]:
    return [value] if is_one(value) else value


def _text(value: object) -> str:
    if isinstance(value, PathLike):
        return fsdecode(value)
    if value is None or isinstance(value, bytes | bytearray | bool) or not is_one(value):
        raise WrongType(f"{value!r} cannot be an argument of a command: give text, a number or a path")
    return str(value)


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {"items": found}
