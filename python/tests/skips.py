"""Skips: said where they are seen, and refused where the thing was installed.

The same as `crates/foundation/testing/src/skips.rs`, which says what the variables mean.
"""

import os
import sys
import unittest

NEEDED = {
    "chromium",
    "cores",
    "flush",
    "fst2vcd",
    "git",
    "guests",
    "hugepages",
    "iproute2",
    "musl",
    "namespaces",
    "python3",
    "qemu",
    "root",
    "rtl",
    "sanitizers",
    "stores",
    "torch",
    "tshark",
    "userfaultfd",
    "valgrind",
    "zram",
}


def skip(needed: str, test: str, why: str) -> None:
    """Ends the test that runs, since this machine lacks what is needed."""
    if needed not in NEEDED:
        raise AssertionError(f"nothing is called {needed}")
    line = f"{needed}: {test}: {' '.join(why.split())}\n"
    if needed in os.environ.get("UNRACK_NO_SKIPS", "").split(","):
        raise AssertionError(f"{line.strip()}; but UNRACK_NO_SKIPS says that it is installed")
    path = os.environ.get("UNRACK_SKIPS")
    if path is None:
        sys.stderr.write(f"skipped: {line}")
    else:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line)
    raise unittest.SkipTest(why)
