"""Scenarios: a network, a fabric, and its work."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Self

from unrack import _native
from unrack.values import plain, settings


class Scenario:
    """A scenario: network, fabric, hosts, workload and faults, as `unrack scenario --explain` lists them.

    Made from a file (`Scenario("rack.toml")`), from text (`Scenario.from_toml(text)`) or from keywords, one for each
    section, whose values are those of the file:

        Scenario(
            network={"topology": {"kind": "star", "nodes": 8}},
            fabric={"protocol": "edm"},
            workload={"kind": "memory", "load": 0.5, "messages": 10_000},
        )

    A scenario does not change; `replace` returns another one. Keys and values are checked when they are needed, or by
    `check`, with the errors of the command: `Refused`, which names the line.
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
            "extends": None if extends is None else fspath(extends),
            "network": network,
            "fabric": fabric,
            "host": host,
            "workload": workload,
            "failures": failures,
            "bit_errors": bit_errors,
        }
        given = {key: value for key, value in sections.items() if value is not None}
        self._set: list[str] = []
        self._path: Path | None = None
        self._text: str | None = None
        if path is None:
            self._text = _native.toml_from_json(json.dumps(plain(given)))
        else:
            self._path = Path(path)
            self._set = settings(given)

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Returns a scenario of this text. Files that it names are relative to the current folder."""
        scenario = cls.__new__(cls)
        scenario._set, scenario._path, scenario._text = [], None, text
        return scenario

    def replace(self, settings_: Mapping[str, object] | None = None, /, **sections: object) -> Self:
        """Returns this scenario with other values, as `--set` replaces them.

        `replace(fabric={"protocol": "cxl"}, seed=3)` and `replace({"fabric.protocol": "cxl", "seed": 3})` are the same.
        """
        other = type(self).__new__(type(self))
        other._path, other._text = self._path, self._text
        other._set = [*self._set, *settings(settings_ or {}), *settings(sections)]
        return other

    def check(self) -> dict[str, object]:
        """Checks that the scenario can be run, and says what it is.

        Returns `protocol`, `workload`, `nodes`, `seed`, `hash` (16 hexadecimal digits, equal for equal values) and
        `memory_bytes`, about what a run takes. Raises `Refused`, or `Lacking` if there is too little memory.
        """
        found: dict[str, object] = json.loads(self._source().check())
        return found

    def explain(self) -> str:
        """Returns the whole scenario as TOML, defaults included. Raises `Refused`."""
        return self._source().explain()

    def draw(self) -> str:
        """Returns a picture of the network as SVG. Raises `Refused`."""
        return self._source().draw()

    def __repr__(self) -> str:
        named = "text" if self._path is None else str(self._path)
        return f"<unrack.Scenario: {' '.join([named, *self._set])}>"

    def _repr_html_(self) -> str:
        return self.draw()

    def _source(self, transfers: int | None = None) -> _native.Source:
        return _native.Source(self._path, self._text, "-", self._set, transfers)


def scenario_of(scenario: Scenario | str | PathLike[str]) -> Scenario:
    """Returns a scenario as it is, or that of a file."""
    return scenario if isinstance(scenario, Scenario) else Scenario(scenario)
