"""Writes a deterministic input to stdout: generate.py (records|text|c|redis) AMOUNT."""

import sys

import numpy as np

LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789-_", dtype=np.uint8)


def records(out, count):
    """Writes lines of 99 letters, as input for sort."""
    rng = np.random.default_rng(1)
    for start in range(0, count, 100_000):
        lines = min(100_000, count - start)
        block = np.empty((lines, 100), dtype=np.uint8)
        block[:, :99] = LETTERS[rng.integers(0, len(LETTERS), size=(lines, 99), dtype=np.uint8)]
        block[:, 99] = ord("\n")
        out.write(block.tobytes())


def text(out, size):
    """Writes words of a fixed vocabulary with a skewed distribution, so that the text compresses like prose."""
    rng = np.random.default_rng(2)
    lengths = rng.integers(2, 11, size=20_000)
    words = [LETTERS[rng.integers(0, 26, size=n)].tobytes() for n in lengths]
    written = 0
    while written < size:
        picked = (len(words) * rng.random(100_000) ** 2).astype(int)
        block = b" ".join(words[i] for i in picked)[: size - written]
        out.write(block)
        written += len(block)


def c(out, functions):
    """Writes a C file with loops, switches, floating-point code and structures, as work for the optimizer."""
    rng = np.random.default_rng(3)
    parts = ["struct point { double x, y; int tag; };", "int printf(const char *, ...);"]
    for n in range(functions):
        a, b, m = (int(v) for v in rng.integers(3, 1000, size=3))
        parts.append(
            f"""
static int pick_{n}(int v) {{
    switch (v % {m % 7 + 3}) {{
        case 0: return v * {a};
        case 1: return v ^ {b};
        case 2: return (v << {a % 13}) - {b};
        default: return v / {m} + {a};
    }}
}}
__attribute__((noinline)) int work_{n}(int *values, struct point *points, int count) {{
    int sum = {a};
    double weight = {b}.5;
    for (int i = 0; i < count; i++) {{
        sum += pick_{n}(values[i] + i);
        points[i].x = points[i].y * {m}.25 + weight;
        weight += points[i].x / (i + {a});
        for (int j = i; j < count && j < i + {a % 9 + 2}; j++)
            values[j] = (values[j] ^ sum) + pick_{n}(j * {b});
        if (points[i].tag == {m}) sum -= (int)weight;
    }}
    return sum{f" + work_{n - 1}(values, points, count / 2)" if n else ""};
}}"""
        )
    out.write("\n".join(parts).encode())


def redis(out, keys):
    """Writes commands of the redis protocol: values of many sizes, hashes, lists and sorted sets."""
    rng = np.random.default_rng(4)

    def command(*words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        out.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    for n in range(keys):
        length = int(rng.integers(1, 1200))
        command("SET", f"key:{n}", LETTERS[rng.integers(0, len(LETTERS), size=length)].tobytes())
        if n % 10 == 0:
            command("HSET", f"hash:{n % 500}", f"field:{n}", n * 7)
            command("RPUSH", f"list:{n % 300}", n)
            command("ZADD", "ranks", int(rng.integers(0, 1 << 30)), f"member:{n}")
    for n in range(0, keys, 7):
        command("DEL", f"key:{n}")


def main():
    kinds = {"records": records, "text": text, "c": c, "redis": redis}
    kind, amount = sys.argv[1:]
    kinds[kind](sys.stdout.buffer, int(amount))


main()
