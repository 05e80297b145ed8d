"""A small Dask job over a pool: `python -m unrack.dask_demo`.

Two workers add a matrix to its transpose, so that half of its blocks pass between them. Prints how long the job took over
`unrack://` and over `tcp://`, and how many of the blocks that one worker fetched from the other lay in the pool.
"""

import argparse
import logging
import sys
import time
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

from unrack.dask import connected

# Exit status if the machine lacks something.
_LACKING = 3


def in_pool(array: np.ndarray) -> bool:
    """Returns whether an array lies in the memory of a pool."""
    first, last = np.lib.array_utils.byte_bounds(array)
    with Path("/proc/self/maps").open() as maps:
        for line in maps:
            start, _, end = line.split(" ", 1)[0].partition("-")
            if int(start, 16) <= first and last <= int(end, 16):
                return "memfd:unrack-pool" in line
    return False


def sum_with_transpose(protocol: str, megabytes: int) -> tuple[float, int, int]:
    """Runs the job over a protocol, on a matrix of `megabytes`.

    Returns its duration in seconds, the number of blocks that one worker then fetched from the other, and how many of these lay
    in the pool.
    """
    side = int((megabytes * 1e6 / 8) ** 0.5) // 4 * 4
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            protocol=protocol,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        matrix = da.random.random((side, side), chunks=(side // 4, side // 4)).persist()
        wait(matrix)
        start = time.perf_counter()
        result = (matrix + matrix.T).sum().compute()
        seconds = time.perf_counter() - start
        assert np.isclose(result, 2 * matrix.sum().compute())
        first, second = client.scheduler_info(n_workers=-1)["workers"]
        blocks = [client.submit(np.ones, 100_000, workers=[first], pure=False) for _ in range(10)]
        there = [client.submit(in_pool, block, workers=[second]).result() for block in blocks]
        return seconds, len(there), sum(there)


def main() -> int:
    """Runs the job over `tcp://` and over `unrack://`, and prints both durations. Returns the exit status."""
    arguments = argparse.ArgumentParser(prog="python -m unrack.dask_demo", description=__doc__)
    arguments.add_argument("--megabytes", type=int, default=64, help="size of the matrix")
    megabytes = arguments.parse_args().megabytes
    try:
        connected()
    except OSError as error:
        print(f"unrack.dask_demo: {error}", file=sys.stderr)
        return _LACKING
    by_tcp, _, _ = sum_with_transpose("tcp", megabytes)
    by_reference, asked, lay = sum_with_transpose("unrack", megabytes)
    print(
        f"transpose of {megabytes} MB: {by_reference:.3f} s by unrack://, {by_tcp:.3f} s by tcp://; "
        f"in the pool: {lay} of {asked} blocks from the other worker"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
