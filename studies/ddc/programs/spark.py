#!/usr/bin/env python3
"""Spark in one process with one worker: the in-memory programs of DDC (OSDI 2016, table 2), on data that are made for the run.

    spark.py wordcount|streaming|sort|pagerank|sql [SCALE]

Data are the same in each run, and so is what is printed. SCALE 1 has some 200 MB in memory.
"""

import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

WORDS = 20_000
ITERATIONS = 5
FILES = 4


def main():
    name, scale = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    program = {
        "wordcount": wordcount,
        "streaming": streaming,
        "sort": sort,
        "pagerank": pagerank,
        "sql": sql,
    }[name]
    session = started()
    try:
        print(f"{name}: {program(session, scale)}")
    finally:
        session.stop()


def started():
    """Session that listens to nobody, and keeps its files to itself."""
    builder = SparkSession.builder.master("local[1]").appName("unrack")
    settings = {
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.adaptive.enabled": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def drawn(column, seed, count):
    """Number below `count` that `column` and `seed` decide."""
    return f.pmod(f.xxhash64(column, f.lit(seed)), f.lit(count))


def skewed(column, seed, count):
    """Number below `count`, small ones the likelier: its logarithm is spread evenly."""
    unit = drawn(column, seed, 1 << 30) / float(1 << 30)
    return f.floor(f.pow(f.lit(float(count)), unit)).cast("long") - 1


def kept(frame):
    """Table that is made once, and stays in memory."""
    frame = frame.cache()
    frame.count()
    return frame


def lines_of_words(session, scale):
    words = [f.concat(f.lit("word"), skewed(f.col("id"), seed, WORDS)) for seed in range(12)]
    return session.range(int(1_200_000 * scale)).select(f.concat_ws(" ", *words).alias("line"))


def counts_of(lines):
    return lines.select(f.explode(f.split("line", " ")).alias("word")).groupBy("word").count()


def said(counts):
    found = counts.agg(f.count("*"), f.sum("count"), f.max("count")).first()
    return f"{found[0]} words, {found[1]} in all, the most frequent {found[2]}"


def wordcount(session, scale):
    return said(counts_of(kept(lines_of_words(session, scale))))


def streaming(session, scale):
    """Counts that are kept while lines come: a batch for each file of a folder."""
    with tempfile.TemporaryDirectory() as folder:
        lines_of_words(session, scale).repartition(FILES, f.xxhash64("line")).write.mode("overwrite").text(
            folder
        )
        lines = (
            session.readStream.option("maxFilesPerTrigger", 1).text(folder).withColumnRenamed("value", "line")
        )
        query = counts_of(lines).writeStream.format("memory").queryName("counts").outputMode("complete")
        query.trigger(availableNow=True).start().awaitTermination()
        return said(session.table("counts"))


def sort(session, scale):
    payload = f.rpad(f.col("id").cast("string"), 90, "x").alias("payload")
    rows = kept(session.range(int(1_500_000 * scale)).select(f.xxhash64("id").alias("key"), payload))
    # All rows in order, handed to nobody.
    rows.orderBy("key").write.format("noop").mode("overwrite").save()
    return f"{rows.count()} rows"


def pagerank(session, scale):
    nodes = int(150_000 * scale)
    ids = session.range(nodes * 8)
    edges = kept(
        ids.select(
            skewed(f.col("id"), 1, nodes).alias("source"), drawn(f.col("id"), 2, nodes).alias("target")
        )
        .distinct()
        .repartition(4, "source")
    )
    degrees = kept(edges.groupBy("source").agg(f.count("*").alias("degree")))
    ranks = session.range(nodes).select(f.col("id").alias("node"), f.lit(1.0).alias("rank"))
    for _ in range(ITERATIONS):
        given = ranks.join(degrees, ranks.node == degrees.source).select(
            f.col("source").alias("giver"), (f.col("rank") / f.col("degree")).alias("part")
        )
        sums = (
            edges.join(given, edges.source == given.giver).groupBy("target").agg(f.sum("part").alias("sum"))
        )
        ranks = kept(sums.select(f.col("target").alias("node"), (0.15 + 0.85 * f.col("sum")).alias("rank")))
    found = ranks.agg(f.count("*"), f.round(f.sum("rank"), 3), f.round(f.max("rank"), 3)).first()
    return f"{found[0]} ranks, {found[1]} in all, the largest {found[2]}"


def sql(session, scale):
    """Scan, aggregation and join of the Big Data Benchmark, in its shapes."""
    pages, visits = int(200_000 * scale), int(1_500_000 * scale)
    url = f.concat(f.lit("url"), f.lpad(f.col("page").cast("string"), 60, "0"))
    rankings = session.range(pages).select(
        f.col("id").alias("page"), skewed(f.col("id"), 3, 10_000).alias("rank")
    )
    kept(rankings.withColumn("url", url)).createOrReplaceTempView("rankings")
    visited = session.range(visits).select(
        drawn(f.col("id"), 4, pages).alias("page"),
        f.concat(f.lit("10."), skewed(f.col("id"), 5, 60_000).cast("string")).alias("source"),
        (drawn(f.col("id"), 6, 10_000) / 100.0).alias("revenue"),
        drawn(f.col("id"), 7, 3650).alias("day"),
    )
    kept(visited.withColumn("destination", url).drop("page")).createOrReplaceTempView("visits")
    scan = session.sql("SELECT count(*), sum(rank) FROM rankings WHERE rank > 100").first()
    sums = "SELECT substr(source, 1, 5) AS prefix, sum(revenue) AS revenue FROM visits GROUP BY substr(source, 1, 5)"
    aggregation = session.sql(f"SELECT count(*), round(max(revenue), 2) FROM ({sums})").first()
    joined = (
        "SELECT source, sum(revenue) AS revenue, avg(rank) AS rank FROM rankings JOIN visits ON url = destination "
        "WHERE day BETWEEN 100 AND 1500 GROUP BY source ORDER BY revenue DESC LIMIT 1"
    )
    join = session.sql(joined).first()
    return f"scan {list(scan)}, aggregation {list(aggregation)}, join {join[0]} {join[1]:.2f} {join[2]:.3f}"


if __name__ == "__main__":
    main()
