"""PageRank on a random power-law graph (R-MAT), with NumPy: about a second of work over some 60 MB.

    unrack compare --local 25% --fabric ideal,edm,cxl,dctcp -- .venv/bin/python examples/numpy-job.py

The graph and the output are the same in every run. The first argument is the binary logarithm of the number of
nodes (default 17), the second the number of edges per node (default 12).
"""

import sys

import numpy as np

DAMPING = 0.85


def rmat(levels, edges, seed=1):
    """Returns the sources and targets of random edges, drawn quadrant by quadrant as in the Graph 500 benchmark."""
    rng = np.random.default_rng(seed)
    src = np.zeros(edges, dtype=np.int32)
    dst = np.zeros(edges, dtype=np.int32)
    for _ in range(levels):
        draw = rng.random(edges, dtype=np.float32)
        right = ((draw >= 0.57) & (draw < 0.76)) | (draw >= 0.95)
        src += src + (draw >= 0.76)
        dst += dst + right
    return src, dst


def compressed(src, dst, nodes):
    """Groups the edges by target. Returns the start of each group, and the sources in the order of the groups."""
    order = np.argsort(dst, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(dst, minlength=nodes))))
    return starts, src[order]


def pagerank(starts, sources, out_degree, rounds):
    nodes = len(out_degree)
    rank = np.full(nodes, 1 / nodes)
    filled = np.flatnonzero(np.diff(starts))
    for n in range(rounds):
        given = np.where(out_degree > 0, rank / np.maximum(out_degree, 1), 0)
        lost = rank[out_degree == 0].sum()
        taken = np.zeros(nodes)
        taken[filled] = np.add.reduceat(given[sources], starts[filled])
        fresh = (1 - DAMPING) / nodes + DAMPING * (taken + lost / nodes)
        change = np.abs(fresh - rank).sum()
        rank = fresh
        if n % 2 == 0:
            print(f"round {n:2}: change {change:.3e}")
    return rank


def main():
    levels, per_node = (int(v) for v in (sys.argv[1:] + ["17", "12"][len(sys.argv) - 1 :]))
    nodes = 1 << levels
    src, dst = rmat(levels, nodes * per_node)
    print(f"graph: {nodes} nodes, {len(src)} edges")
    starts, sources = compressed(src, dst, nodes)
    rank = pagerank(starts, sources, np.bincount(src, minlength=nodes), rounds=8)
    print(f"sum of ranks {rank.sum():.9f}")
    for node in np.argsort(-rank, kind="stable")[:10]:
        print(f"node {node:7}: {rank[node]:.9f}")


main()
