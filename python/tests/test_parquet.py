"""Parquet tables beside pyarrow: what it writes is read as it reads it, and what is written here is read by it."""

import datetime
import itertools
import random
import tempfile
import unittest
from pathlib import Path

import pyarrow
import pyarrow.parquet
import unrack
from unrack import verbs

STAR = Path(__file__).parents[2] / "examples" / "star-edm.toml"
ROWS = 70_000
MAKE = {
    "bool": (pyarrow.bool_(), lambda draw: draw.random() < 0.3),
    "int32": (pyarrow.int32(), lambda draw: draw.randrange(-(1 << 31), 1 << 31)),
    "uint32": (pyarrow.uint32(), lambda draw: draw.randrange(1 << 32)),
    "int64": (pyarrow.int64(), lambda draw: draw.randrange(-(1 << 63), 1 << 63)),
    "uint64": (pyarrow.uint64(), lambda draw: draw.randrange(1 << 64)),
    "float32": (pyarrow.float32(), lambda draw: draw.randrange(1 << 20) / 8),
    "float64": (pyarrow.float64(), lambda draw: draw.gauss(0, 1e9)),
    "text": (pyarrow.string(), lambda draw: draw.choice(["", "fetch", "write-back", "größer"])),
}
# Encodings for each physical type, other than plain and dictionary.
ENCODINGS = {
    "int32": "DELTA_BINARY_PACKED",
    "uint64": "DELTA_BINARY_PACKED",
    "float64": "BYTE_STREAM_SPLIT",
    "text": "DELTA_BYTE_ARRAY",
}


def table(seed: int, rows: int) -> pyarrow.Table:
    draw = random.Random(seed)
    columns = {}
    for name, (holds, make) in MAKE.items():
        gaps = draw.choice([0, 0.5])
        values = [None if draw.random() < gaps else make(draw) for _ in range(rows)]
        columns[name] = pyarrow.array(values, holds)
    return pyarrow.table(columns)


class Parquet(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_what_pyarrow_writes_is_read(self):
        versions = itertools.product(["1.0", "2.6"], ["1.0", "2.0"], ["none", "zstd"], [True, False])
        for seed, (version, page, compression, dictionary) in enumerate(versions):
            with self.subTest(version=version, page=page, compression=compression, dictionary=dictionary):
                written = table(seed, (0, 1, 1000, ROWS)[seed % 4])
                if version == "1.0":  # It has no unsigned integers of 32 bits.
                    written = written.drop_columns("uint32")
                path = self.folder / f"{seed}.parquet"
                pyarrow.parquet.write_table(
                    written,
                    path,
                    version=version,
                    data_page_version=page,
                    compression=compression,
                    use_dictionary=dictionary,
                    column_encoding=None if dictionary else ENCODINGS,
                    row_group_size=(3, 100, 30_000)[seed % 3] if len(written) < ROWS else 50_000,
                )
                self.assertEqual(pyarrow.table(unrack.Table.read(path)), written)

    def test_other_types_are_refused_by_name(self):
        for values, holds in [
            (pyarrow.array([datetime.date(2026, 1, 1)]), "Date"),
            (pyarrow.array([[1, 2]]), "lists or groups"),
            (pyarrow.array([b"bytes"]), "BYTE_ARRAY"),
            (pyarrow.array([1], pyarrow.int8()), "INT32"),
        ]:
            path = self.folder / "other.parquet"
            pyarrow.parquet.write_table(pyarrow.table({"n": [1], "odd": values}), path)
            with self.assertRaisesRegex(unrack.Failed, f"column `odd.*{holds}.*is not read here"):
                unrack.Table.read(path)

    def test_pyarrow_reads_what_is_written(self):
        done = verbs.sim(STAR, set=["workload.messages=3000"], out=self.folder / "run")
        for name in done.tables:
            there = pyarrow.parquet.read_table(self.folder / "run" / f"{name}.parquet")
            here = pyarrow.table(done.table(name))
            self.assertEqual(here.replace_schema_metadata(), there.replace_schema_metadata(), name)
            self.assertIn(b"unrack.table", there.schema.metadata)
        messages = pyarrow.parquet.read_table(self.folder / "run" / "messages.parquet").schema
        self.assertEqual(messages.field("id").type, pyarrow.uint64())
        self.assertEqual(messages.field("slowdown").type, pyarrow.float64())
        self.assertEqual(messages.field("kind").type, pyarrow.string())
        self.assertFalse(messages.field("bytes").nullable)
        self.assertTrue(messages.field("completed_ps").nullable)
