//! DLRM inference (Naumov et al., 2019) on embedding tables that are distributed over ranks. For each batch, a rank
//! requests the embeddings that it needs from the ranks that own them, each embedding once. It computes when it has
//! received all of them. The owner of an embedding loads the requested row, which may be anywhere in the owner's
//! tables.

use super::tasks::{Builder, Tasks};
use crate::random::{DrawPurpose, drawn, generator, scale};
use crate::source::TaskLoads;
use rand_distr::{Distribution, Zipf};
use std::sync::Arc;
use unrack_basis::mix;
use unrack_rack::jobs::{Embedding, EmbeddingSpread};
use unrack_units::Time;

/// Number of rows of each of the 26 tables for Criteo's Kaggle data (`arch-embedding-size` in DLRM's scripts).
pub const ROWS: [u32; 26] = [
    1_460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5_683, 8_351_593, 3_194, 27, 14_992,
    5_461_306, 10, 5_652, 2_173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572,
];

/// Bytes of the number of a row, which is an `int64` in DLRM.
const NUMBER_BYTES: u64 = 8;
/// Bytes of a cache line of the processor.
const LINE_BYTES: u64 = 64;
/// Bytes of an element of an embedding, which is a number of single precision.
const ELEMENT_BYTES: u64 = 4;

/// Returns one round that contains all batches. A rank processes its batches one after the other, and does not wait for
/// the batches of other ranks.
pub fn embedding(spec: &Embedding, ranks: u32, seed: u64) -> Vec<Arc<Tasks>> {
    let takes = |lookups: u64| Time::from_secs_f64(lookups as f64 / f64::from(spec.lookups_per_s));
    let zipfs = ROWS.map(|rows| Zipf::new(f64::from(rows), spec.exponent).expect("checked: no less than 0"));
    let row_bytes = u64::from(spec.dimension) * ELEMENT_BYTES;
    let tables: Vec<u64> = (0..ranks).map(|rank| rows_of(spec, rank, ranks) * row_bytes).collect();
    let mut builder = Builder::new();
    for rank in 0..ranks {
        let mut draws = generator(seed, DrawPurpose::Rows, rank);
        let mut asks = builder.task(rank, Time::ZERO);
        for _ in 0..spec.batches {
            let lookups = lookups(spec, &mut draws, &zipfs, ranks);
            let served: Vec<(u32, u64, u64)> = (1..=ranks)
                .map(|ahead| (rank + ahead) % ranks)
                .map(|owner| (owner, lookups[owner as usize]))
                .filter(|(_, lookups)| *lookups > 0)
                .map(|(owner, lookups)| {
                    (builder.task(owner, takes(lookups)), lookups, lookups * NUMBER_BYTES)
                })
                .collect();
            let gathers = builder.task(rank, Time::ZERO);
            let mut came = 0;
            for (serves, lookups, asked) in served {
                builder.send(asks, serves, asked);
                builder.send(serves, gathers, lookups * row_bytes);
                let scattered = lookups * row_bytes.div_ceil(LINE_BYTES);
                let among = tables[builder.rank_of(serves) as usize];
                builder.loads(serves, TaskLoads { came: asked, scattered, among, ..TaskLoads::default() });
                came += lookups * row_bytes;
            }
            builder.loads(gathers, TaskLoads { came, ..TaskLoads::default() });
            builder.request(asks, gathers);
            let computes = builder.task(rank, spec.compute);
            builder.after(gathers, computes);
            asks = computes;
        }
    }
    vec![Arc::new(builder.finish())]
}

/// Returns the number of rows that a rank owns, summed over all tables.
fn rows_of(spec: &Embedding, owner: u32, ranks: u32) -> u64 {
    let all = ROWS.iter().map(|rows| u64::from(*rows));
    match spec.spread {
        EmbeddingSpread::Tables => all.skip(owner as usize).step_by(ranks as usize).sum(),
        EmbeddingSpread::Rows => all.sum::<u64>() / u64::from(ranks),
    }
}

/// Draws the rows that a batch needs. Returns, for each owner, the number of different rows that the batch needs from
/// this owner.
fn lookups(
    spec: &Embedding,
    draws: &mut crate::random::Generator,
    zipfs: &[Zipf<f64>],
    ranks: u32,
) -> Vec<u64> {
    let mut needed = vec![0; ranks as usize];
    let mut rows: Vec<u64> = Vec::with_capacity(spec.batch as usize);
    for (table, zipf) in (0u64..).zip(zipfs) {
        rows.clear();
        rows.extend((0..spec.batch).map(|_| u64::from(drawn(zipf.sample(draws), ROWS[table as usize]))));
        rows.sort_unstable();
        rows.dedup();
        match spec.spread {
            EmbeddingSpread::Tables => needed[(table % u64::from(ranks)) as usize] += rows.len() as u64,
            EmbeddingSpread::Rows => {
                for row in &rows {
                    needed[scale((mix(table << 32 | row) >> 32) as u32, ranks) as usize] += 1;
                }
            }
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(spread: EmbeddingSpread, exponent: f64) -> Embedding {
        let (lookups_per_s, compute) = (1_000_000, Time::from_us(100));
        Embedding { batches: 3, batch: 256, dimension: 16, exponent, spread, lookups_per_s, compute }
    }

    /// Returns the bytes that each rank sends as an owner of rows. An answer is eight times as large as its request.
    fn answered(spec: &Embedding) -> Vec<u64> {
        let mut answered = vec![0; 8];
        let tasks = &embedding(spec, 8, 1)[0];
        let all: u64 = tasks.messages().map(|(_, _, bytes)| bytes).sum();
        // Each lookup takes a microsecond. Lookups of a rank's own rows send nothing.
        let lookups = (tasks.computed() - Time::from_us(8 * 3 * 100)).as_ns() / 1_000;
        assert!(all < lookups * (8 + 64) && all > lookups / 2 * (8 + 64));
        for task in 0..tasks.len() {
            if tasks.compute_of(task) > Time::ZERO && tasks.inputs_of(task) == 1 {
                answered[tasks.rank_of(task) as usize] +=
                    tasks.outputs_of(task).iter().map(|output| output.bytes).sum::<u64>();
            }
        }
        answered
    }

    #[test]
    fn whole_tables_are_uneven_and_rows_are_even() {
        let skew = |spread| {
            let answered = answered(&spec(spread, 1.05));
            *answered.iter().max().unwrap() as f64 * 8.0 / answered.iter().sum::<u64>() as f64
        };
        assert!(
            skew(EmbeddingSpread::Tables) > 1.3 && skew(EmbeddingSpread::Rows) < 1.2,
            "{} {}",
            skew(EmbeddingSpread::Tables),
            skew(EmbeddingSpread::Rows)
        );
    }

    #[test]
    fn hot_rows_are_asked_for_once() {
        let sum = |exponent| answered(&spec(EmbeddingSpread::Rows, exponent)).iter().sum::<u64>();
        assert!(sum(1.5) < sum(0.5));
    }
}
