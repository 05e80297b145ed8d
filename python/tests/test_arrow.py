"""Arrow tables that lie in a pool. Needs the command (UNRACK) and the library."""

import gc
import subprocess
import sys
import threading
import unittest

import pyarrow as pa
import pyarrow.compute as pc
from pools import Pool, in_child, mappings, until
from unrack import arrow, lend, rpc

# Serves a table of a million numbers, says so, and waits to be killed.
OWNER = """
import sys
import pyarrow
from unrack import arrow

with arrow.serve("numbers", sys.argv[1]) as tables:
    tables["million"] = pyarrow.table({"number": range(1_000_000), "text": [str(n) for n in range(1_000_000)]})
    print("ready", flush=True)
    sys.stdin.read()
"""


def sample():
    """A table with what has buffers of other kinds: text, lists, structs, dictionaries, nulls, chunks."""
    rows = 10_000
    batch = {
        "number": pa.array(range(rows), pa.int64()),
        "some": pa.array([None if row % 3 else row / 7 for row in range(rows)]),
        "text": pa.array([f"row {row}" for row in range(rows)]),
        "list": pa.array([[row] * (row % 4) for row in range(rows)]),
        "struct": pa.array([{"a": row, "b": str(row)} for row in range(rows)]),
        "word": pa.array([f"word {row % 5}" for row in range(rows)]).dictionary_encode(),
    }
    return pa.concat_tables([pa.table(batch), pa.table(batch).slice(77, 500)])


def buffers(table):
    """All Arrow buffers of a table."""
    for column in table.columns:
        for chunk in column.chunks:
            yield from (buffer for buffer in chunk.buffers() if buffer is not None and buffer.size)
            if pa.types.is_dictionary(chunk.type):
                yield from (buffer for buffer in chunk.dictionary.buffers() if buffer is not None)


class Tables(unittest.TestCase):
    def setUp(self):
        self.pool = self.enterContext(Pool("256MiB"))
        self.addCleanup(self.comes_back)

    def comes_back(self):
        gc.collect()
        until(self.pool.is_empty, lambda: f"{self.pool.books()} is left")

    def assert_in_pool(self, table):
        mapped = mappings()
        for buffer in buffers(table):
            inside = any(start <= buffer.address <= end - buffer.size for start, end in mapped)
            self.assertTrue(inside, f"{buffer} was copied")

    def test_a_reader_has_the_table_itself(self):
        table = sample()
        with arrow.serve("tables", self.pool.path) as tables:
            tables["sample"] = table
            with arrow.connect("tables", self.pool.path) as reader:
                read = reader["sample"]
                self.assertEqual(read, table)
                read.validate(full=True)
                self.assert_in_pool(read)
                again = reader["sample"]
                for one, other in zip(buffers(read), buffers(again), strict=True):
                    self.assertEqual(one.address, other.address)
            own = tables["sample"]
            self.assertEqual(own, table)
            self.assert_in_pool(own)

    def test_tables_are_a_mapping(self):
        small = pa.table({"a": [1]})
        with arrow.serve("tables", self.pool.path) as tables:
            with arrow.connect("tables", self.pool.path) as reader:
                self.assertEqual(list(reader), [])
                with self.assertRaisesRegex(KeyError, "none"):
                    reader["none"]
                for name in ("one", "zwölf"):
                    tables[name] = small
                tables["batch"] = small.to_batches()[0]
                tables["empty"] = small.slice(0, 0)
                tables["without columns"] = pa.table({})
                self.assertEqual(list(reader), list(tables))
                self.assertEqual([reader[name].num_rows for name in reader], [1, 1, 1, 0, 0])
                self.assertEqual(reader["zwölf"], small)
                self.assertEqual(reader["empty"].schema, small.schema)
                del tables["one"]
                self.assertNotIn("one", list(reader))
                self.assertEqual(len(tables), 4)
            with self.assertRaises(ValueError):
                tables[""] = small
            with self.assertRaisesRegex(rpc.PoolError, "the pool is full"):
                tables["large"] = pa.table({"a": pa.nulls(40_000_000, pa.int64())})
        with self.assertRaisesRegex(ValueError, "closed"):
            tables["late"] = small

    def test_owners_that_are_gone_are_said_and_names_that_cannot_be_are_none(self):
        small = pa.table({"a": [1]})
        tables = arrow.serve("tables", self.pool.path)
        tables["it"] = small
        with arrow.connect("tables", self.pool.path) as reader:
            with self.assertRaises(KeyError):
                reader["y" * 70_000]
            self.assertEqual(reader["it"], small)
            tables.close()
            for use in (lambda: reader["it"], lambda: list(reader)) * 2:
                with self.assertRaisesRegex(rpc.Gone, "which serves the tables, has ended"):
                    use()
        with self.assertRaisesRegex(ValueError, "closed"):
            reader["it"]

    def test_a_child_by_fork_is_refused_and_its_parent_goes_on(self):
        small = pa.table({"a": [1]})
        with arrow.serve("tables", self.pool.path) as tables:
            tables["it"] = small
            with arrow.connect("tables", self.pool.path) as reader:
                read = reader["it"]

                def child(read=read):
                    self.assertEqual(read, small)
                    for use in (
                        lambda: reader["it"],
                        lambda: list(reader),
                        lambda: tables["it"],
                        lambda: tables.__setitem__("child's", small),
                        lambda: tables.__delitem__("it"),
                    ):
                        with self.assertRaises(rpc.Invalid):
                            use()
                    reader.close()
                    tables.close()

                in_child(child)
                self.assertEqual(reader["it"], small)
                self.assertEqual(list(reader), ["it"])
                del read

    def test_a_table_stays_as_it_is_while_it_is_read(self):
        table = sample()
        with arrow.serve("tables", self.pool.path) as tables:
            tables["it"] = table
            reader = arrow.connect("tables", self.pool.path)
            read = reader["it"]
            reader.close()
            tables["it"] = pa.table({"other": [0] * 100_000})
            self.assertEqual(read, table)
            del tables["it"]
            for filler in range(20):
                tables["filler"] = pa.table({"other": [filler] * 100_000})
            self.assertEqual(read, table)
        self.assertEqual(read, table)
        del tables, reader
        gc.collect()
        self.assertEqual(read, table)

    def test_deleted_tables_keep_no_more_than_was_said(self):
        with arrow.serve("tables", self.pool.path) as tables:
            for number in range(12):
                tables[str(number)] = pa.table({"a": pa.nulls(2_000_000, pa.int64())})
            self.assertGreater(self.pool.books()["taken"], 190 << 20)
            for name in list(tables):
                del tables[name]
            gc.collect()
            # At once: others need not wait until this process takes no more buffers.
            self.assertLessEqual(self.pool.books()["taken"], 100 << 20)
            until(lambda: self.pool.books()["taken"] <= 36 << 20, "a region is kept, and no more")

    def test_memory_is_given_back_with_the_last_buffer(self):
        with (
            arrow.serve("tables", self.pool.path) as tables,
            arrow.connect("tables", self.pool.path) as reader,
        ):
            tables["it"] = pa.table({"a": range(4_000_000), "b": range(4_000_000)})
            held = self.pool.books()["taken"]
            read = reader["it"]
            del tables["it"]
            column = read.column("a").chunk(0).slice(5, 10)
            del read
            gc.collect()
            link = next(iter(tables._links))
            self.assertEqual((link.lent, column.to_pylist()), (1, list(range(5, 15))))
            self.assertEqual(self.pool.books()["taken"], held)
            computed = pc.add(column, 1)
            del column
            gc.collect()
            until(lambda: link.lent == 0, "the table was not returned")
            until(lambda: self.pool.books()["taken"] < held, "its memory was not given back")
            self.assertEqual(computed.to_pylist(), list(range(6, 16)))
            link = None

    def test_a_table_outlives_an_owner_that_is_killed(self):
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, self.pool.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.addCleanup(owner.communicate)
        self.addCleanup(owner.kill)
        self.assertEqual(owner.stdout.readline(), b"ready\n")
        reader = arrow.connect("numbers", self.pool.path)
        read = reader["million"]
        self.assert_in_pool(read)
        owner.kill()
        owner.wait()
        until(lambda: self.pool.books()["services"] == 0, "the manager does not notice")
        self.assertEqual(pc.sum(read.column("number")).as_py(), 999_999 * 500_000)
        self.assertEqual(read.column("text")[-1].as_py(), "999999")
        with self.assertRaises((rpc.Gone, OSError)):
            reader["million"]
        reader.close()

    def test_peers_that_keep_to_no_protocol_harm_nobody_else(self):
        with arrow.serve("tables", self.pool.path) as tables:
            tables["it"] = pa.table({"a": [1]})
            for noise in (b"\xff" * 5, b"\1\xff\xff\xff\xff", b"\1\1\0\0\0\xff", b"\2\0"):
                with lend.Endpoint(self.pool.path).open("tables") as link:
                    link.stream.sendall(noise)
                    link.stream.shutdown(1)
                    while link.stream.recv(100):
                        pass
            with arrow.connect("tables", self.pool.path) as reader:
                self.assertEqual(reader["it"].num_rows, 1)

    def test_threads_share_a_reader(self):
        table = sample()
        failed = []
        with (
            arrow.serve("tables", self.pool.path) as tables,
            arrow.connect("tables", self.pool.path) as reader,
        ):
            tables["it"] = table

            def read():
                for _ in range(50):
                    if reader["it"] != table:
                        failed.append("it")

            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(failed, [])


if __name__ == "__main__":
    unittest.main()
