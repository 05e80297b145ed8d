"""Disaggregated racks: what far memory would do to a program, networks simulated packet by packet, and shared memory.

| to | use |
|---|---|
| compare networks for a program | `compare`, `map`, `run`, `swap`: the command's verbs; all are in `unrack.verbs` |
| simulate a rack | `Scenario`, `simulate`, `sweep`, `Messages` |
| reproduce published figures | `study` |
| read tables without a copy | `Table` |
| know what this machine lacks | `doctor` |
| call by reference over shared memory | `unrack.rpc`, `unrack.kv` |

Times are numbers whose name ends in the unit, or text with a unit (`"10us"`). Errors are those of `unrack.errors`.
"""

# The first says what to do where the module in Rust is missing.
from unrack import _built, errors  # noqa: F401
from unrack.errors import Error, Failed, Lacking, NotWritten, Refused, WrongType
from unrack.messages import Messages
from unrack.results import Result
from unrack.scenario import Scenario
from unrack.simulation import Simulation, simulate
from unrack.sweeps import Sweep, sweep
from unrack.tables import Table
from unrack.verbs import compare, diff, doctor, map, report, run, swap
from unrack.verbs import study_run as study

__all__ = [
    "Error",
    "Failed",
    "Lacking",
    "Messages",
    "NotWritten",
    "Refused",
    "Result",
    "Scenario",
    "Simulation",
    "Sweep",
    "Table",
    "WrongType",
    "compare",
    "diff",
    "doctor",
    "errors",
    "map",
    "report",
    "run",
    "simulate",
    "study",
    "swap",
    "sweep",
]
