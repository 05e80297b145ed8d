"""Arguments of every type, drawn at random with a fixed seed: each gives the right result, or an exception of the package.

No argument may hang a call, wrap around, be cut short in silence, or raise something else.
"""

import decimal
import fractions
import itertools
import math
import os
import pathlib
import random
import tempfile
import unittest

import numpy
import pandas
import polars
import pyarrow
import unrack
from unrack import verbs

ROOT = pathlib.Path(__file__).parents[2]
STAR = ROOT / "examples" / "star-edm.toml"
SECTIONS = {
    "network": {"topology": {"kind": "star", "nodes": 8}},
    "fabric": {"protocol": "edm"},
    "workload": {"kind": "memory", "messages": 50, "load": 0.4},
}
INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]
FLOATS = ["f2", "f4", "f8", "longdouble"]
# What no number is, and no text either.
NOTHING = [
    None,
    object(),
    b"64",
    "64",
    "",
    True,
    numpy.bool_(True),
    1j,
    float("nan"),
    math.inf,
    -math.inf,
    decimal.Decimal("nan"),
    decimal.Decimal("sNaN"),
    numpy.float16("nan"),
    numpy.datetime64(5, "ns"),
    numpy.timedelta64(5, "us"),
    pandas.Timedelta(5, "us"),
    pandas.Timestamp(5),
    pandas.NA,
    pandas.NaT,
    [1],
    (),
    {},
    {"a": 1},
    print,
    10**400,
]


def base():
    return unrack.Scenario(**SECTIONS)


def starts(messages):
    return [row[3] for row in messages._rows]


def columns(draw):
    """Returns columns of the same kind of numbers by every library, each with its exact values."""
    values = [draw.randrange(100) for _ in range(30)]
    yield list(values), values
    yield range(30), range(30)
    yield iter(values), values
    yield (value for value in values), values
    for dtype in INTEGERS + FLOATS:
        array = numpy.array(values, dtype)
        yield array, values
        yield iter(array), values
        yield array[::-1], values[::-1]
    for made in (pandas.Series, polars.Series, pyarrow.array, pandas.array):
        yield made(values), values
    yield pyarrow.chunked_array([values[:7], values[7:]]), values
    yield pandas.Series(values, dtype="Int8"), values
    exact = [fractions.Fraction(value, 7) for value in values]
    yield exact, exact
    tenths = [decimal.Decimal(value) / 10 for value in values]
    yield tenths, [fractions.Fraction(tenth) for tenth in tenths]
    for dtype in FLOATS:
        array = (numpy.array(values) * 0.37).astype(dtype)
        yield array, [fractions.Fraction(float(value)) for value in array]


class OfMessages(unittest.TestCase):
    def setUp(self):
        self.good = {"src": 0, "dst": 1, "bytes": 64}

    def test_gaps_of_every_type_are_added_exactly(self):
        for place, (column, values) in enumerate(columns(random.Random(3))):
            with self.subTest(place=place, kind=type(column)):
                messages = unrack.Messages(**self.good, gaps_ns=column)
                sums = [sum * 1000 for sum in itertools.accumulate(map(fractions.Fraction, values))]
                self.assertEqual(len(messages), len(sums))
                for start, exact in zip(starts(messages), sums, strict=True):
                    self.assertLess(abs(start - exact), 1)

    def test_many_small_gaps_do_not_drift(self):
        for dtype, size, gap in (("u1", 1000, 100), ("f2", 3000, 1), ("f4", 300_000, 0.1), ("i8", 10, 2**49)):
            messages = unrack.Messages(**self.good, gaps_ns=numpy.full(size, gap, dtype))
            exact = fractions.Fraction(float(numpy.array(gap, dtype))) * 1000 * size
            self.assertLess(abs(starts(messages)[-1] - exact), 2, dtype)

    def test_starts_and_sizes_of_every_type(self):
        for place, (column, values) in enumerate(columns(random.Random(4))):
            with self.subTest(place=place, kind=type(column)):
                messages = unrack.Messages(**self.good, start_ns=column)
                exact = sorted(fractions.Fraction(value) * 1000 for value in values)
                self.assertTrue(all(abs(a - b) <= 0.5 for a, b in zip(starts(messages), exact, strict=True)))
        for place, (column, values) in enumerate(columns(random.Random(5))):
            if min(values) > 0:
                sizes = [row[2] for row in unrack.Messages(src=0, dst=1, bytes=column, gaps_ns=1)._rows]
                self.assertEqual(sizes, [math.ceil(value) for value in values], place)

    def test_one_number_of_every_type_is_for_all(self):
        scalars = [numpy.dtype(dtype).type(5) for dtype in INTEGERS + FLOATS]
        scalars += [fractions.Fraction(5), decimal.Decimal(5), numpy.array(5), pyarrow.scalar(5), 5.0]
        for scalar in scalars:
            with self.subTest(kind=type(scalar)):
                messages = unrack.Messages(src=scalar, dst=1, bytes=scalar, gaps_ns=scalar, count=scalar)
                self.assertEqual(messages._rows, [(5, 1, 5, 5000 * at, "write") for at in range(1, 6)])
                with self.assertRaisesRegex(unrack.Refused, "give count"):
                    unrack.Messages(src=scalar, dst=1, bytes=scalar, gaps_ns=scalar)

    def test_lengths_agree_or_both_are_named(self):
        draw = random.Random(6)
        made = [list, tuple, numpy.array, pandas.Series, pyarrow.array, iter, polars.Series]
        for _ in range(60):
            names = draw.sample(["src", "bytes", "gaps_ns"], 2)
            sizes = draw.sample(range(1, 40), 2)
            given = {name: draw.choice(made)([1] * size) for name, size in zip(names, sizes, strict=True)}
            call = {"src": 0, "dst": 2, "bytes": 64, "gaps_ns": 1, **given}
            text = f"({names[0]}.*{names[1]})|({names[1]}.*{names[0]})"
            with self.assertRaisesRegex(unrack.Refused, text):
                unrack.Messages(**call)
            self.assertEqual(len(unrack.Messages(**{**call, "count": 1})), 1)
        with self.assertRaisesRegex(unrack.Refused, "src has 2 values, but gaps_ns has 1000"):
            unrack.Messages(src=[0, 1], dst=2, bytes=64, gaps_ns=numpy.ones(1000))
        with self.assertRaisesRegex(unrack.Refused, "src ends after 2 values, but there are 1000"):
            unrack.Messages(src=(node for node in (0, 1)), dst=2, bytes=64, gaps_ns=numpy.ones(1000))
        with self.assertRaisesRegex(unrack.Refused, "src has 2 values, but count is 3"):
            unrack.Messages(src=[0, 1], dst=2, bytes=64, gaps_ns=1, count=3)
        endless = {"src": itertools.cycle([0, 1]), "dst": itertools.repeat(2), "bytes": itertools.count(1)}
        self.assertEqual(len(unrack.Messages(**endless, gaps_ns=[1, 2, 3])), 3)
        with self.assertRaisesRegex(unrack.Refused, "give count"):
            unrack.Messages(**endless, gaps_ns=1)

    def test_nothing_else_is_taken_for_a_number(self):
        for name, wrong in itertools.product(["src", "dst", "bytes", "gaps_ns", "start_ns"], NOTHING):
            times = {} if name in ("gaps_ns", "start_ns") else {"gaps_ns": [1, 2]}
            if wrong is None and name in ("gaps_ns", "start_ns"):
                continue
            for value in (wrong, [wrong, wrong], iter([wrong, wrong])):
                with self.subTest(name=name, wrong=wrong), self.assertRaises(unrack.Refused):
                    unrack.Messages(**{**self.good, **times, name: value, "count": 2})
        for name, wrong in (
            ("src", [0.5]),
            ("src", [-1]),
            ("bytes", [0]),
            ("gaps_ns", [-1]),
            ("start_ns", [-1]),
        ):
            times = {} if name in ("gaps_ns", "start_ns") else {"gaps_ns": 1}
            with self.subTest(name=name, wrong=wrong), self.assertRaises(unrack.Refused):
                unrack.Messages(**{**self.good, **times, name: wrong})
        for count in (0, -1, 1.5, "2", 10**30, math.nan, True):
            with self.subTest(count=count), self.assertRaises(unrack.Refused):
                unrack.Messages(**self.good, gaps_ns=1, count=count)
        for kind in ("post", b"read", 5, ["read", None], None):
            with self.subTest(kind=kind), self.assertRaises(unrack.Refused):
                unrack.Messages(**self.good, gaps_ns=[1, 2], kind=kind)

    def test_times_since_1970_are_refused_with_what_to_do(self):
        for given in ({"start_ns": [1_700_000_000_000_000_000]}, {"gaps_ns": [2**62, 2**62]}):
            with self.assertRaisesRegex(unrack.Refused, "subtract the first"):
                unrack.Messages(**self.good, **given)

    def test_more_than_the_memory_holds_is_refused_at_once(self):
        with self.assertRaisesRegex(unrack.Lacking, "GiB"):
            unrack.Messages(**self.good, gaps_ns=1, count=2**32)
        with self.assertRaisesRegex(unrack.Lacking, "GiB"):
            unrack.Messages(src=range(2**34), dst=1, bytes=64, gaps_ns=1)

    def test_an_error_of_a_generator_is_its_own(self):
        def broken():
            yield 1
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            unrack.Messages(**self.good, gaps_ns=broken())


class OfScenarios(unittest.TestCase):
    def test_numbers_of_every_type_are_values(self):
        for protocol in ("edm", numpy.str_("edm")):
            for make in (
                int,
                float,
                numpy.int16,
                numpy.float32,
                fractions.Fraction,
                decimal.Decimal,
                numpy.array,
            ):
                with self.subTest(make=make):
                    by_keyword = unrack.Scenario(
                        **{**SECTIONS, "workload": {**SECTIONS["workload"], "messages": make(64)}}
                    )
                    replaced = base().replace({"workload.messages": make(64), "fabric.protocol": protocol})
                    self.assertEqual(by_keyword.check()["hash"], replaced.check()["hash"])
        million = base().replace({"workload.messages": 1e6})
        self.assertIn("messages = 1_000_000", million.explain().replace("1000000", "1_000_000"))

    def test_no_value_is_taken_for_another(self):
        for wrong in NOTHING:
            with self.subTest(wrong=wrong), self.assertRaises(unrack.Refused):
                base().replace({"workload.messages": wrong}).check()
            if wrong is not None:
                with self.subTest(wrong=wrong), self.assertRaises(unrack.Refused):
                    unrack.Scenario(
                        **{**SECTIONS, "workload": {"kind": "memory", "load": 0.5, "messages": wrong}}
                    ).check()

    def test_what_is_no_scenario_is_refused(self):
        deep: dict = {}
        deep["a"] = deep
        for call in (
            lambda: unrack.simulate(5),
            lambda: unrack.simulate({"seed": 1}),
            lambda: unrack.simulate(None),
            lambda: unrack.simulate(""),
            lambda: unrack.simulate("a\0b"),
            lambda: unrack.simulate(b"\xff/absent.toml"),
            lambda: unrack.Scenario(5),
            lambda: unrack.Scenario().check(),
            lambda: unrack.Scenario(network="star").check(),
            lambda: unrack.Scenario(network=deep),
            lambda: unrack.Scenario.from_toml(5),
            lambda: unrack.Scenario.from_toml("\ud800").check(),
            lambda: unrack.Scenario.from_toml("x = [" * 1000).check(),
            lambda: base().replace("workload.load=0.3"),
            lambda: base().replace([("seed", 1)]),
            lambda: base().replace({5: 1}),
            lambda: base().replace({"workload.load": itertools.count()}),
            lambda: base().replace({"seed=1 #": 1}).check(),
            lambda: base().replace({"workload.\U0001f600": 1}).check(),
            lambda: base().replace({"\ud800": 1}).check(),
            lambda: base().replace({"workload.file": "\udcff"}).check(),
            lambda: base().replace({"": 1}).check(),
            lambda: base().replace(seed=-1).check(),
            lambda: base().replace(seed=10**5000).check(),
        ):
            with self.assertRaises(unrack.Refused):
                call()

    def test_later_values_replace_earlier_ones(self):
        rack = base().replace(fabric={"protocol": "cxl"}, seed=3).replace({"seed": 4})
        self.assertEqual((rack.check()["protocol"], rack.check()["seed"]), ("cxl", 4))
        found = unrack.sweep(
            rack, {"workload.load": [0.3, 0.4], "fabric.protocol": ["edm", "cxl"]}, seeds=[1, 2]
        )
        self.assertEqual(found.summary["keys"], ["workload.load", "fabric.protocol", "seed"])
        self.assertEqual(len(found), 8)
        self.assertEqual(len(unrack.sweep(rack, {"seed": [7]})), 1)
        with self.assertRaises(unrack.Refused):
            unrack.sweep(rack, {"seed": [7]}, seeds=[8])
        # Another kind drops what was set for the earlier one, the same kind does not, as from a file.
        flows = {"kind": "flows", "pattern": "all-to-all", "size": "64B", "load": 0.2, "messages": 30}
        for earlier in (base(), unrack.Scenario(STAR)):
            changed = earlier.replace({"workload.read_fraction": 0.25}).replace(workload=flows)
            self.assertEqual(changed.check()["workload"], "flows")
            same = earlier.replace({"workload.read_fraction": 0.25}).replace({"workload.kind": "memory"})
            self.assertIn('read_fraction = "25%"', same.explain())

    def test_messages_stay_with_their_scenario(self):
        def own():
            return unrack.Messages(src=0, dst=1, bytes=64, gaps_ns=[10] * 30)

        for rack in (
            STAR,
            unrack.Scenario(STAR),
            base(),
            base().replace({"workload.load": 0.3}),
            own().on(base()),
        ):
            scenario = own().on(rack)
            run = unrack.simulate(scenario)
            self.assertEqual(run.summary["messages"], 30)
            self.assertEqual(unrack.simulate(own().on(rack)).summary["messages"], 30)
            later = scenario.replace(seed=7).replace({"fabric.protocol": "cxl"})
            del scenario
            self.assertEqual(unrack.simulate(later).summary["messages"], 30)
            del later
            # A run keeps the file: its folder has its hash, and its scenario can be run again.
            with tempfile.TemporaryDirectory() as folder:
                run.save(pathlib.Path(folder, "run"))
                run.save(pathlib.Path(folder, "run"))
            self.assertEqual(unrack.simulate(run.scenario).summary["messages"], 30)

    def test_text_of_every_kind_names_a_file(self):
        draw = random.Random(7)
        names = [
            "m\U0001f600.csv",
            "a'b.csv",
            'a"b.csv',
            "a\\b.csv",
            "a,b.csv",
            "a=b.csv",
            "a b#.csv",
            "[x].csv",
        ]
        names += [
            "\x7f.csv",
            "tab\t.csv",
            "line\n.csv",
            "\u2028é.csv",
            "-x.csv",
            "true",
            "1e3",
            "%s{0}$(x).csv",
        ]
        names += [
            "".join(
                chr(draw.choice([draw.randrange(1, 0x300), draw.randrange(0x10000, 0x1F000)]))
                for _ in range(9)
            )
            for _ in range(20)
        ]
        messages = unrack.Messages(src=0, dst=1, bytes=64, gaps_ns=[10, 10, 10])
        with tempfile.TemporaryDirectory() as folder:
            for name in (name for name in names if "/" not in name):
                file = pathlib.Path(folder, name)
                messages.save(file)
                for path in (str(file), file):
                    with self.subTest(name=name):
                        replaced = base().replace({"workload.kind": "trace", "workload.file": path})
                        whole = unrack.Scenario(**{**SECTIONS, "workload": {"kind": "trace", "file": path}})
                        self.assertEqual(replaced.check()["hash"], whole.check()["hash"])
                        self.assertEqual(unrack.simulate(replaced).summary["messages"], 3)

    def test_a_folder_of_any_name_for_what_is_temporary(self):
        with tempfile.TemporaryDirectory() as above:
            odd = pathlib.Path(above, "-\U0001f600 'x\" ,=\n")
            odd.mkdir()
            before, tempfile.tempdir = tempfile.tempdir, str(odd)
            try:
                messages = unrack.Messages(src=0, dst=1, bytes=64, gaps_ns=[10, 10])
                found = unrack.sweep(messages.on(base()), {"fabric.protocol": ["edm", "cxl"]})
                self.assertEqual(len(found), 2)
                self.assertIn("svg", found._repr_html_())
            finally:
                tempfile.tempdir = before

    def test_files_whose_names_look_like_options(self):
        before = pathlib.Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                for name in ("-", "--json", "-x.toml"):
                    pathlib.Path(name).write_text(base().explain())
                    self.assertEqual(unrack.simulate(name).summary["messages"], 50)
                    self.assertEqual(len(unrack.sweep(name, {"seed": [1, 2]}, out=f"-out{name}")), 2)
                self.assertEqual(verbs.sim("-x.toml", out="-run")["messages"], 50)
            finally:
                os.chdir(before)


class OfCalls(unittest.TestCase):
    def test_arguments_of_simulate(self):
        for given in (
            *({"threads": wrong} for wrong in [*NOTHING, -1, 1.5, 2**32]),
            *({"transfers": wrong} for wrong in [*NOTHING[1:], -1, 1.5, 2**64]),
            *({"links": wrong} for wrong in (5, 1.5, b"10us", "", "0us", "-1us", "x", "\U0001f600", [])),
        ):
            with self.subTest(given=given), self.assertRaises(unrack.Refused):
                unrack.simulate(base(), **given)
        self.assertEqual(unrack.simulate(base(), threads=numpy.uint8(1)).summary["messages"], 50)

    def test_arguments_of_sweep(self):
        for given in (
            *({"threads": wrong} for wrong in [*NOTHING[1:], 0, -1]),
            *(
                {"seeds": wrong}
                for wrong in ([], "", "x", [1.5], ["a"], -1, [-1], [1, 1], object(), [None], True, 2**70)
            ),
            *({"values": wrong} for wrong in ([], 5, "workload.load=0.5", {"workload.load": []}, {5: [1]})),
            {"values": {"workload.load": [0.5, 0.5]}},
            {"values": {"workload.load": itertools.count(1)}},
            {"values": {"workload.messages": range(1, 2000), "seed": range(2000)}},
            {"seeds": range(2**40)},
            {"values": {"workload.load": [math.nan]}},
            {"values": {"seed": [1, 2]}, "seeds": [1, 2]},
            *({"out": wrong} for wrong in (5, "", "a\0b", [], "/proc/none")),
        ):
            with self.subTest(given=given), self.assertRaises(unrack.Error):
                unrack.sweep(base(), **{"values": {"workload.load": [0.3]}, **given})
        for seeds in (range(1, 3), [1, 2], numpy.arange(1, 3), "1..2", (1.0, 2.0), iter([1, 2])):
            self.assertEqual(len(unrack.sweep(base(), seeds=seeds)), 2)
        self.assertEqual(len(unrack.sweep(base())), 1)

    def test_arguments_of_verbs(self):
        for call in (
            lambda: verbs.sim("a\0b"),
            lambda: verbs.sim(None),
            lambda: verbs.sim(STAR, set=5),
            lambda: verbs.sim(STAR, set=[None]),
            lambda: verbs.sim(STAR, out=b"x"),
            lambda: verbs.sim(STAR, threads=[1, 2]),
            lambda: verbs.sim(STAR, set="x" * (3 << 20)),
        ):
            with self.assertRaises(unrack.Refused):
                call()

    def test_places_that_cannot_be_written(self):
        run = unrack.simulate(base())
        messages = unrack.Messages(src=0, dst=1, bytes=64, gaps_ns=[10])
        for call in (
            lambda: run.save("/proc/none/run"),
            lambda: run.save(5),
            lambda: run.save("a\0b"),
            lambda: messages.save("/proc/none/file"),
            lambda: messages.save("/"),
            lambda: messages.save(5),
            lambda: messages.save("a\0b"),
            lambda: unrack.Table.read("/none"),
            lambda: unrack.Table.read(5),
            lambda: unrack.Table.read(STAR),
        ):
            with self.assertRaises(unrack.Error):
                call()

    def test_one_family_of_exceptions(self):
        from unrack import rpc

        for kind, also in (
            (unrack.Refused, ValueError),
            (unrack.WrongType, TypeError),
            (unrack.WrongType, unrack.Refused),
            (unrack.Failed, RuntimeError),
            (unrack.NotWritten, OSError),
            (unrack.NotWritten, unrack.Failed),
            (unrack.Lacking, OSError),
            (rpc.Error, unrack.Error),
        ):
            self.assertTrue(issubclass(kind, also) and issubclass(kind, unrack.Error), kind)


if __name__ == "__main__":
    unittest.main()
