"""Simulates one scenario, and holds the results."""

import json
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from typing import Any

from unrack import _native
from unrack.errors import WrongType
from unrack.pictures import html_of_run, saved_pictures
from unrack.progress import shown
from unrack.scenario import Scenario, scenario_of
from unrack.tables import Table
from unrack.values import path_of, transfers_of, whole


class Simulation:
    """Results of one simulation."""

    def __init__(self, native: _native.Simulation, simulated: Scenario) -> None:
        self._native = native
        # Held because the scenario keeps the temporary files that it names.
        self._simulated = simulated

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """Figures of the run, as `unrack sim --json` prints them.

        Among them are `slowdown` (completion time of a message divided by that of the same message alone on the fabric),
        `completion_ns`, `throughput_gbps`, `queue_bytes` and `warnings`. Equal scenarios give equal figures, except those in
        `machine`, which differ from run to run.
        """
        figures: Mapping[str, Any] = json.loads(self._native.summary())
        return figures

    @cached_property
    def messages(self) -> Table:
        """Table with one row for each message.

        Its columns are `id`, `src`, `dst`, `kind`, `bytes`, `submitted_ps`, `completed_ps` (null if the message did not finish),
        `unloaded_ps` (completion time of the same message alone on the fabric), `ideal_ps` (minimum completion time that these
        links allow), `slowdown` (completion time divided by `unloaded_ps`), `retransmissions`, `drops` and `trims` (packets
        that were cut to their header).
        """
        return Table(self._native.messages())

    @cached_property
    def ports(self) -> Table | None:
        """Table of the links over time, with one row for each interval and direction. None unless `links` was given.

        Its columns are `from_ps`, `kind`, `number`, `busy_ps`, `utilization` (0 to 1), `packets`, `wire_bytes`, `payload_bytes`,
        `queue_mean_bytes` and `queue_max_bytes`.
        """
        native = self._native.ports()
        return None if native is None else Table(native)

    @property
    def scenario(self) -> Scenario:
        """The complete scenario that was simulated, with all defaults filled in."""
        scenario = Scenario.from_toml(self._native.scenario())
        scenario._folders = self._simulated._folders
        return scenario

    def save(self, folder: str | PathLike[str], *, replace: bool = False) -> None:
        """Writes the run folder that `unrack sim --out` writes.

        Raises `Refused` if the folder has another run and `replace` is false, and `NotWritten` if the folder cannot be written.
        """
        self._native.save(path_of("folder", folder), bool(replace))

    def __repr__(self) -> str:
        summary = self.summary
        return (
            f"<unrack.Simulation: {summary['fabric']}, {summary['completed']} of {summary['messages']} messages, "
            f"slowdown p99 {summary['slowdown']['p99']}>"
        )

    def _repr_html_(self) -> str:
        slowdown = self.summary["slowdown"]
        rows = {
            "fabric": self.summary["fabric"],
            "messages": f"{self.summary['completed']} of {self.summary['messages']} completed",
            "slowdown": f"mean {slowdown['mean']:.4g}, p99 {slowdown['p99']:.4g}"
            if slowdown["mean"]
            else "none",
            "throughput": f"{self.summary['throughput_gbps']:.4g} Gb/s",
        }
        return html_of_run(rows, saved_pictures(self.save))


def simulate(
    scenario: Scenario | str | PathLike[str],
    *,
    threads: int = 1,
    links: str | None = None,
    transfers: int | None = None,
    progress: bool | None = None,
) -> Simulation:
    """Simulates a scenario, as `unrack sim` does, with the interpreter lock released. Ctrl-C ends the simulation.

    Args:
        scenario: A `Scenario`, or the path of a scenario file.
        threads: Number of threads. They split the racks of the run between them; the results do not depend on the number.
        links: Interval at which links are sampled for `Simulation.ports`, such as `"10us"`. None samples no links.
        transfers: Maximum number of transfers to replay from a captured trace.
        progress: Whether to draw a progress bar. None draws it on a terminal and in a notebook.

    Raises `Refused` if the scenario or an argument is invalid, `Lacking` if the machine has too little memory, and `Failed` if the
    simulation fails before its end.
    """
    scenario = scenario_of(scenario)
    threads = whole("threads", threads)
    if links is not None and not isinstance(links, str):
        raise WrongType(f"links is {links!r}: give a time with its unit, such as '10us'")
    source = scenario._source(transfers_of(transfers))
    with shown("simulate", "message", progress) as show:
        return Simulation(source.simulate(threads, links, show), scenario)
