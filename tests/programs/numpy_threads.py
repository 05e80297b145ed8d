"""Runs NumPy in threads and in other processes: numpy_threads.py SCALE. The output is the same in every run."""

import hashlib
import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def shuffle_and_sort(seed, count):
    """Sorts, searches and counts numbers: memory traffic of every kind."""
    values = np.random.default_rng(seed).integers(0, 1 << 40, size=count)
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    probes = np.searchsorted(ranked, values[::97])
    histogram = np.bincount(values & 0xFFFF, minlength=1 << 16)
    return digest(order), digest(ranked), digest(probes), digest(histogram)


def in_threads(scale):
    with ThreadPoolExecutor(4) as pool:
        for line in pool.map(shuffle_and_sort, range(8), [125_000 * scale] * 8):
            print("thread", *line)


def in_processes(scale, method):
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        for line in pool.map(shuffle_and_sort, range(8, 12), [50_000 * scale] * 4):
            print(method, *line)


def in_other_programs(scale):
    numbers = np.arange(50_000 * scale, dtype=np.int64) * 7919 % 1_000_003
    text = "\n".join(map(str, numbers.tolist())) + "\n"
    for command in (["sort", "-n"], ["md5sum"], [sys.executable, "-c", "print(sum(map(int, open(0))))"]):
        ended = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        print("program", command[0].rsplit("/")[-1], hashlib.sha256(ended.stdout.encode()).hexdigest()[:16])


def algebra(scale):
    rng = np.random.default_rng(99)
    a = rng.standard_normal((256 * (1 + scale // 4), 512))
    product = a @ a.T
    print("matrix", digest(product), f"{np.trace(product):.6f}")
    grid = rng.standard_normal((512 * (1 + scale // 2), 1024))
    print("fft", digest(np.fft.rfft2(grid)), f"{grid.std():.12f}")


def main():
    scale = int(sys.argv[1])
    in_threads(scale)
    in_processes(scale, "fork")
    in_processes(scale, "spawn")
    in_other_programs(scale)
    algebra(scale)


if __name__ == "__main__":
    main()
