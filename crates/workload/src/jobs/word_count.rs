//! MapReduce (Dean and Ghemawat, CACM 2008): words of a text are counted. Mappers read, and send each reducer its
//! words.

use super::tasks::{Builder, Tasks};
use crate::error::WorkloadError;
use crate::random::{Purpose, generator, mix, scale};
use rand_distr::{Distribution, Zipf};
use std::sync::Arc;
use unrack_rack::jobs::WordCount;
use unrack_units::Time;

/// Beside a word in a record: its end, and a count.
const COUNT_BYTES: u64 = 1 + 8;

/// What was counted, and what that took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// By word, the most frequent first, over all texts.
    pub counts: Vec<u64>,
    pub rounds: Vec<Arc<Tasks>>,
}

/// Counts the texts that the job asks for.
///
/// # Errors
/// If nobody maps.
pub fn word_count(spec: &WordCount, ranks: u32, seed: u64) -> Result<Counted, WorkloadError> {
    let reducers = spec.reducers.unwrap_or(ranks);
    if !(1..=ranks).contains(&reducers) || spec.reducers == Some(ranks) {
        let rule = "has at least 1 of `reducers`, and a host that maps";
        return Err(WorkloadError::new("workload.jobs", rule, format!("{reducers} of {ranks}")));
    }
    let mappers = if spec.reducers.is_some() { ranks - reducers } else { ranks };
    let mut counts = vec![0; spec.vocabulary as usize];
    let round = |iteration: u32| {
        let texts = (0..mappers).map(|mapper| text(spec, seed, iteration * mappers + mapper));
        let shuffled: Vec<Vec<Shuffled>> = texts
            .map(|text| {
                counts.iter_mut().zip(&text).for_each(|(sum, count)| *sum += u64::from(*count));
                shuffle(spec, &text, reducers)
            })
            .collect();
        Arc::new(tasks(spec, &shuffled, ranks - reducers))
    };
    let rounds = (0..spec.iterations).map(round).collect();
    Ok(Counted { counts, rounds })
}

/// How often each word is in a text.
fn text(spec: &WordCount, seed: u64, number: u32) -> Vec<u32> {
    let zipf = Zipf::new(f64::from(spec.vocabulary), spec.exponent)
        .expect("checked: at least a word, no less than 0");
    let mut draws = generator(seed, Purpose::Words, number);
    let mut counts = vec![0; spec.vocabulary as usize];
    for _ in 0..spec.words {
        counts[zipf.sample(&mut draws) as usize - 1] += 1;
    }
    counts
}

/// From a mapper to a reducer.
#[derive(Debug, Clone, Copy, Default)]
struct Shuffled {
    records: u64,
    bytes: u64,
}

fn shuffle(spec: &WordCount, text: &[u32], reducers: u32) -> Vec<Shuffled> {
    let mut shuffled = vec![Shuffled::default(); reducers as usize];
    for (word, count) in (0..).zip(text).filter(|(_, count)| **count > 0) {
        // Hash partitioning, the default of the paper's §4.1.
        let to = &mut shuffled[scale((mix(word) >> 32) as u32, reducers) as usize];
        let records = if spec.combine { 1 } else { u64::from(*count) };
        to.records += records;
        to.bytes += records * (letters(word) + COUNT_BYTES);
    }
    shuffled
}

/// The n-th word is the n-th of a, b, ... z, aa, ab, ...: frequent words are short.
fn letters(word: u64) -> u64 {
    let (mut letters, mut longer) = (1, 26);
    let mut rest = word;
    while rest >= longer {
        rest -= longer;
        longer *= 26;
        letters += 1;
    }
    letters
}

fn tasks(spec: &WordCount, shuffled: &[Vec<Shuffled>], first_reducer: u32) -> Tasks {
    let takes = |records: u64| Time::from_secs_f64(records as f64 / f64::from(spec.words_per_s));
    let mut builder = Builder::new();
    let maps: Vec<u32> =
        (0..shuffled.len() as u32).map(|mapper| builder.task(mapper, takes(spec.words.into()))).collect();
    let reducers = shuffled[0].len();
    let reduces: Vec<u32> = (0..reducers)
        .map(|reducer| {
            let records = shuffled.iter().map(|to| to[reducer].records).sum();
            builder.task(first_reducer + reducer as u32, takes(records))
        })
        .collect();
    for (map, to) in maps.iter().zip(shuffled) {
        for ahead in 0..reducers {
            let reducer = (*map as usize + ahead) % reducers;
            if to[reducer].records > 0 {
                builder.send(*map, reduces[reducer], to[reducer].bytes);
            }
        }
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(reducers: Option<u32>, combine: bool) -> WordCount {
        let (vocabulary, exponent, words_per_s) = (5_000, 1.0, 1_000_000);
        WordCount { words: 20_000, reducers, vocabulary, exponent, combine, words_per_s, iterations: 2 }
    }

    #[test]
    fn every_word_is_counted_once() {
        for (reducers, mappers) in [(None, 6), (Some(2), 4)] {
            let counted = word_count(&spec(reducers, true), 6, 1).unwrap();
            assert_eq!(counted.counts.iter().sum::<u64>(), 2 * mappers * 20_000);
            // Zipf's law: the first word twice as often as the second, ten times as often as the tenth.
            let ratio = |n: usize| counted.counts[0] as f64 / counted.counts[n - 1] as f64;
            assert!((1.8..2.2).contains(&ratio(2)) && (9.0..11.0).contains(&ratio(10)));
        }
    }

    #[test]
    fn what_is_not_combined_is_sent_word_by_word() {
        let records = |combine| {
            let rounds = word_count(&spec(Some(3), combine), 6, 1).unwrap().rounds;
            // Mappers take 20 ms each; the rest is what reducers take, a microsecond for each record.
            (rounds[0].computed() - Time::from_us(60_000)).as_ns() / 1_000
        };
        assert_eq!(records(false), 60_000);
        assert!(records(true) < 3 * 5_000);
    }

    #[test]
    fn words_grow_longer() {
        assert_eq!([0, 25, 26, 26 + 675, 26 + 676].map(letters), [1, 1, 2, 2, 3]);
        assert!(word_count(&spec(Some(6), true), 6, 1).is_err());
    }
}
