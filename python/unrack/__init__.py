"""Disaggregated racks: measures how remote memory slows down a program, simulates networks, and shares memory between processes.

| to | use |
|---|---|
| compare networks for a program | `compare`, `map`, `run`, `swap`: verbs of the command; `unrack.verbs` has all verbs |
| simulate a rack | `Scenario`, `simulate`, `sweep`, `Messages` |
| reproduce published figures | `study` |
| read tables without a copy | `Table` |
| list the requirements that this machine does not meet | `doctor` |
| call by reference over shared memory | `unrack.rpc`, `unrack.kv` |

A time is either a number whose name ends in its unit (`start_ns`), or text with a unit (`"10us"`). The functions raise the
exceptions of `unrack.errors`.
"""

# `_built` must come first: it explains how to install the native module if that is missing.
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
