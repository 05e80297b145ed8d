"""Programs with which the model is validated, and their inputs, which are the same in each run."""

import math
import os
import random
import shutil
import sys
from dataclasses import dataclass, field

KERNELS = "unrack-lines-kernels"
SIZES = ("cache", "memory")
WORDS = [
    "the",
    "of",
    "rack",
    "memory",
    "line",
    "load",
    "store",
    "near",
    "far",
    "cable",
    "switch",
    "port",
    "page",
    "run",
]

SQL = """CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, b INT, note TEXT);
WITH RECURSIVE n(i, r) AS (
    SELECT 1, 12345 UNION ALL SELECT i + 1, (r * 1103515245 + 12345) % 2147483648 FROM n WHERE i < 60000)
INSERT INTO t SELECT i, r / 7 % 3000, r / 11 % 1000, printf('%08x-%d', r, i) FROM n;
CREATE INDEX by_a ON t(a);
CREATE INDEX by_note ON t(note);
SELECT count(*), sum(b), min(note) FROM t;
SELECT b, count(*), sum(a) FROM t GROUP BY b ORDER BY sum(a) DESC LIMIT 5;
SELECT count(*) FROM t x JOIN t y ON x.a = y.a AND x.b < y.b;
UPDATE t SET b = b + a WHERE a % 3 = 0;
SELECT count(*), sum(b) FROM t WHERE note LIKE '0%';
"""
JSON_WORK = """import json, random
random.seed(1)
rows = [{"id": i, "name": "n%d" % (i * 7919 % 1009), "xs": [random.random() for _ in range(8)]} for i in range(12000)]
for _ in range(3):
    text = json.dumps(rows)
    rows = json.loads(text)
print(len(text), sum(row["id"] for row in rows))
"""
SORT_WORK = """import random
random.seed(2)
xs = [random.random() for _ in range(300000)]
ys = sorted(xs, key=lambda x: -x)
words = sorted(str(x) for x in xs[:100000])
print(ys[0], words[0])
"""
C_HEAD = "#include <stddef.h>\n"
C_FUNCTION = """static int f{n}(const int *p, size_t k) {{
    int s = {n};
    for (size_t i = 0; i < k; i++) {{
        if (p[i] % {m} == 1) s += p[i] * {n}; else s ^= p[(i * {m}) % k];
        switch (s & 7) {{ case 0: s += 3; break; case 1: s -= p[i]; break; case 5: s <<= 1; break; default: s ^= {n}; }}
    }}
    return s;
}}
"""


@dataclass
class Program:
    """A program with its arguments."""

    name: str
    command: list
    stdin: str | None = None
    environment: dict = field(default_factory=dict)
    # Working set of the program, if it is known.
    bytes: int | None = None


def sizes(levels):
    """Returns the two working sets of the kernels, for the cache levels that were measured on this machine.

    The smaller one lies between the sizes of the second level and the last level, the larger one beyond the last level.
    """
    second, last = (level["effective_bytes"] for level in (levels[1], levels[-1]))
    between = math.sqrt(second * last)
    return {"cache": rounded(between), "memory": max(64 << 20, rounded(4 * last))}


def rounded(size):
    """Rounds a size to multiples of half a MiB, or to larger multiples if the size is large."""
    part = 1 << max(19, int(size).bit_length() - 4)
    return max(1, round(size / part)) * part


def kernels(folder, working_sets):
    """Returns the kernels of a build folder, each at both sizes; kernels that use only the core have one size."""
    binary = os.path.join(folder, KERNELS)
    names = os.popen(f"'{binary}' --list").read().split()
    at = {name: SIZES[:1] if name.startswith("core-") else SIZES for name in names}

    def kernel(name, size):
        command = [binary, name, str(working_sets[size])]
        return Program(f"{name} {size}", command, bytes=working_sets[size])

    return [kernel(name, size) for name in names for size in at[name]]


def applications(root, folder):
    """Returns the real programs that this machine has, and creates their inputs in `folder`."""
    text, long_text = (written(folder, f"text-{words}", text_of(words)) for words in (400_000, 2_400_000))
    sql = written(folder, "work.sql", SQL)
    source = written(folder, "work.c", c_source(60))
    scripts = {
        name: written(folder, f"python-{name}.py", work)
        for name, work in (("json", JSON_WORK), ("sort", SORT_WORK))
    }
    python, numeric = os.path.realpath(sys.executable), os.path.join(root, ".venv/bin/python")
    job = os.path.join(root, "examples/numpy-job.py")
    count = "{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) s += n[w]; print s }"
    programs = [
        Program("sqlite", ["sqlite3", "-batch", ":memory:"], stdin=sql),
        Program(
            "redis",
            ["bash", os.path.join(root, "examples/redis-session.sh")],
            environment={"REDIS_KEYS": "5000", "REDIS_REQUESTS": "5000"},
        ),
        Program("zstd", ["zstd", "-q", "--single-thread", "-6", "-c", long_text]),
        Program("xz", ["xz", "-T1", "-2", "-c", text]),
        Program("python json", [python, scripts["json"]]),
        Program("python sort", [python, scripts["sort"]]),
        Program("numpy", [numeric, job, "14"], environment={"OPENBLAS_NUM_THREADS": "1"}),
        Program("awk", ["awk", count, long_text]),
        Program("grep", ["grep", "-c", "-E", "(rack|cable) (far|near) .*switch", long_text]),
        Program("gcc", ["gcc", "-O1", "-c", "-o", os.path.join(folder, "work.o"), source]),
    ]
    missing = [program.name for program in programs if not shutil.which(program.command[0])]
    if missing:
        print(f"left out, since not installed: {', '.join(missing)}", flush=True)
    return [program for program in programs if program.name not in missing]


def written(folder, name, text):
    """Writes a text to a file, and returns its path."""
    path = os.path.join(folder, name)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    return path


def text_of(words):
    """Returns lines of twelve random words each."""
    rng = random.Random(7)
    lines = (
        " ".join(rng.choice(WORDS) for _ in range(11)) + f" {rng.randrange(10**6)}"
        for _ in range(words // 12)
    )
    return "\n".join(lines) + "\n"


def c_source(functions):
    """Returns a C file with the given number of functions, and one function that calls all of them."""
    bodies = "".join(C_FUNCTION.format(n=n, m=n % 13 + 2) for n in range(functions))
    calls = " + ".join(f"f{n}(p, k)" for n in range(functions))
    return f"{C_HEAD}{bodies}int all(const int *p, size_t k) {{ return {calls}; }}\n"
