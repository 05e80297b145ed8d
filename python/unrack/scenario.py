"""Scenarios: descriptions of a network, a fabric and a workload, which a simulation runs."""

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self

from unrack import _native
from unrack.errors import Refused, WrongType
from unrack.folders import Folder
from unrack.values import plain, quoted, settings, text_of

# Keys that select the kind of their table. The other keys of the table depend on the kind: see crates/sim/rack/src/tree.rs.
_SELECTS = ("kind", "protocol", "cdf", "cdf_file", "pareto")


class Scenario:
    """A scenario: network, fabric, hosts, workload and faults, as `unrack scenario explain` lists them.

    A scenario is made from a file (`Scenario("rack.toml")`), from text (`Scenario.from_toml(text)`), or from keywords. There is
    one keyword for each section of the file, and its value has the same keys as that section:

        Scenario(
            network={"topology": {"kind": "star", "nodes": 8}},
            fabric={"protocol": "edm"},
            workload={"kind": "memory", "load": 0.5, "messages": 10_000},
        )

    Numbers may be of any library, and an integer may be given as a float (`1e6`). A scenario is immutable; `replace` returns a
    modified copy. Keys and values are checked when they are first used, or by `check`. An invalid one raises `Refused` with the
    error message of the command, which names the line.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        seed: int | None = None,
        extends: str | PathLike[str] | None = None,
        network: Mapping[str, object] | None = None,
        fabric: Mapping[str, object] | None = None,
        host: Mapping[str, object] | None = None,
        workload: Mapping[str, object] | None = None,
        failures: Sequence[Mapping[str, object]] | None = None,
        bit_errors: Mapping[str, object] | None = None,
    ) -> None:
        sections = {
            "seed": seed,
            "extends": extends,
            "network": network,
            "fabric": fabric,
            "host": host,
            "workload": workload,
            "failures": failures,
            "bit_errors": bit_errors,
        }
        given = {key: value for key, value in sections.items() if value is not None}
        self._set: dict[str, str] = {}
        self._path: Path | None = None
        self._text: str | None = None
        # Temporary folders of files that the settings name, held so that the files exist as long as this scenario.
        self._folders: tuple[Folder, ...] = ()
        if path is None:
            self._text = _native.toml_from_json(json.dumps(plain(given)))
        else:
            self._path = _path_of(path)
            self._set = settings(given)

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Returns a scenario from TOML text. Relative paths in the text are relative to the current folder."""
        if not isinstance(text, str):
            raise WrongType(f"{text!r} is not the text of a scenario")
        quoted(text)
        scenario = cls.__new__(cls)
        scenario._set, scenario._path, scenario._text, scenario._folders = {}, None, text, ()
        return scenario

    def replace(self, settings_: Mapping[str, object] | None = None, /, **sections: object) -> Self:
        """Returns a copy of this scenario with some values replaced, as the option `--set` of the command replaces values of a file.

        `replace(fabric={"protocol": "cxl"}, seed=3)` and `replace({"fabric.protocol": "cxl", "seed": 3})` are equivalent. A
        later value of a key replaces an earlier one. A new value of a key that selects a kind, such as `fabric.protocol`, also
        drops all settings of that table which were made for the earlier kind.
        """
        new = {**settings({} if settings_ is None else settings_), **settings(sections)}
        dropped = [table for key, text in new.items() for table in self._replaced_tables(key, text)]
        other = self._without(new, dropped)
        other._set |= new
        return other

    def check(self) -> dict[str, object]:
        """Checks that the scenario can be run, and returns a summary of it.

        The summary has `protocol`, `workload`, `nodes`, `seed`, `hash` (16 hexadecimal digits, equal for scenarios with equal
        values) and `memory_bytes` (approximate memory of a run). Raises `Refused` if the scenario is invalid, and `Lacking` if
        the machine has too little memory.
        """
        found: dict[str, object] = json.loads(self._source().check())
        return found

    def explain(self) -> str:
        """Returns the whole scenario as TOML, defaults included. Raises `Refused` if the scenario is invalid."""
        return self._source().explain()

    def draw(self) -> str:
        """Returns a picture of the network as SVG. Raises `Refused` if the scenario is invalid."""
        return self._source().draw()

    def __repr__(self) -> str:
        named = "text" if self._path is None else str(self._path)
        return f"<unrack.Scenario: {' '.join([named, *self._settings()])}>"

    def _repr_html_(self) -> str:
        return self.draw()

    def _source(self, transfers: int | None = None) -> _native.Source:
        return _native.Source(self._path, self._text, "-", self._settings(), transfers)

    def _settings(self) -> list[str]:
        """Returns the settings as values of the option `--set`."""
        return [f"{key}={text}" for key, text in self._set.items()]

    def _without(self, keys: Collection[str], tables: Collection[str] = ()) -> Self:
        """Returns a copy of this scenario without the settings of these keys and tables. Values in its file or text stay."""
        other = type(self).__new__(type(self))
        other._path, other._text, other._folders = self._path, self._text, self._folders
        within = tuple(f"{table}." for table in tables)
        other._set = {
            key: text
            for key, text in self._set.items()
            if key not in keys and key not in tables and not key.startswith(within)
        }
        return other

    def _with_work(self, file: Path, folder: Folder) -> Self:
        """Returns a copy of this scenario whose workload is a file of messages. The copy keeps the file's temporary folder."""
        other = self._without((), ["workload"])
        other._folders = (folder,)
        other._set |= settings({"workload.kind": "trace", "workload.file": file})
        return other

    def _replaced_tables(self, key: str, text: str) -> list[str]:
        """Returns the table whose kind this setting changes, if the scenario has settings of that table; otherwise an empty list."""
        table, _, last = key.rpartition(".")
        if last not in _SELECTS or not any(old.startswith(f"{table}.") for old in self._set):
            return []
        before = self._set.get(key) or self._value(key)
        return [] if before is None or before == text else [table]

    def _value(self, key: str) -> str | None:
        """Returns the value of a key, defaults included. Returns None if the key has no value or the scenario is incomplete."""
        try:
            value: Any = tomllib.loads(self.explain())
        except Refused:
            return None
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return None if value is None else text_of(value)


def scenario_of(scenario: Scenario | str | PathLike[str]) -> Scenario:
    """Returns a `Scenario` unchanged, or makes one from the path of a file."""
    return scenario if isinstance(scenario, Scenario) else Scenario(_path_of(scenario))


def _path_of(path: str | PathLike[str]) -> Path:
    try:
        return Path(fspath(path))
    except TypeError as why:
        raise WrongType(f"{path!r} is not a scenario: give a Scenario, or the path of a file") from why
