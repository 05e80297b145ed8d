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

from importlib.util import find_spec as _find_spec

if _find_spec("unrack._native") is None:
    raise ImportError(
        f"{__path__[0]} has no native module (unrack._native): it is the source, which PYTHONPATH or the current folder puts "
        "before an installed package. Install the wheel (`make wheel`, then `pip install target/wheels/unrack-*.whl`), and "
        "remove this folder from PYTHONPATH"
    )

from unrack import errors
from unrack.errors import Error, Failed, Lacking, Refused
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
    "Refused",
    "Result",
    "Scenario",
    "Simulation",
    "Sweep",
    "Table",
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
