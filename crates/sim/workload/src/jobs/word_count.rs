//! MapReduce (Dean and Ghemawat, CACM 2008) that counts the words of texts. Each mapper reads a text, and sends each
//! reducer the words that this reducer counts. Mappers and reducers load the data that they read. For each word of this
//! data, they also load a line of their table of counts.

use super::tasks::{Builder, Tasks};
use crate::error::WorkloadError;
use crate::random::{DrawPurpose, drawn, generator, scale};
use crate::source::TaskLoads;
use rand_distr::{Distribution, Zipf};
use std::sync::Arc;
use unrack_basis::mix;
use unrack_rack::jobs::{Shuffle, WordCount};
use unrack_units::Time;

/// Bytes of a record in addition to the letters of its word: a terminator and a count.
const COUNT_BYTES: u64 = 1 + 8;

/// Bytes of a cache line of the processor. Each line of a table of counts contains the count of one word.
const LINE_BYTES: u64 = 64;

/// Result of counting the words, and the tasks that the counting needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordCountResult {
    /// Number of occurrences of each word in all texts, indexed by word. Word 0 is the most frequent one.
    pub counts: Vec<u64>,
    pub rounds: Vec<Arc<Tasks>>,
}

/// Counts the words of the texts that the job specifies.
///
/// # Errors
/// If there is no mapper or no reducer.
pub fn word_count(spec: &WordCount, ranks: u32, seed: u64) -> Result<WordCountResult, WorkloadError> {
    let reducers = spec.reducers.unwrap_or(ranks);
    if !(1..=ranks).contains(&reducers) || spec.reducers == Some(ranks) {
        let rule = "is at least 1, and leaves a host that maps";
        return Err(WorkloadError::new("reducers", rule, format!("{reducers} of {ranks}")));
    }
    let mappers = if spec.reducers.is_some() { ranks - reducers } else { ranks };
    let mut counts = vec![0; spec.vocabulary as usize];
    let shuffled = |iteration: u32| {
        let texts = (0..mappers).map(|mapper| text(spec, seed, iteration * mappers + mapper));
        let count = |text: Vec<u32>| {
            counts.iter_mut().zip(&text).for_each(|(sum, count)| *sum += u64::from(*count));
            shuffle(spec, &text, reducers)
        };
        texts.map(count).collect()
    };
    let texts: Vec<Vec<Vec<Shuffled>>> = (0..spec.iterations).map(shuffled).collect();
    let first_reducer = ranks - reducers;
    let rounds = match spec.shuffle {
        Shuffle::Stages => texts.iter().map(|text| Arc::new(stage(spec, text, first_reducer))).collect(),
        Shuffle::Own | Shuffle::First => vec![Arc::new(pipeline(spec, &texts, first_reducer))],
    };
    Ok(WordCountResult { counts, rounds })
}

/// Draws a text. Returns the number of occurrences of each word in it, indexed by word.
fn text(spec: &WordCount, seed: u64, number: u32) -> Vec<u32> {
    let zipf = Zipf::new(f64::from(spec.vocabulary), spec.exponent)
        .expect("checked: at least a word, no less than 0");
    let mut draws = generator(seed, DrawPurpose::Words, number);
    let mut counts = vec![0; spec.vocabulary as usize];
    for _ in 0..spec.words {
        counts[drawn(zipf.sample(&mut draws), spec.vocabulary) as usize] += 1;
    }
    counts
}

/// Data that a mapper sends to a reducer.
#[derive(Debug, Clone, Copy, Default)]
struct Shuffled {
    records: u64,
    bytes: u64,
    /// Bytes that the words of this data take in the mapper's text.
    read: u64,
    /// Number of words of this data in the mapper's text. The field after it is the number of different words among
    /// them.
    words: u64,
    different: u64,
}

fn shuffle(spec: &WordCount, text: &[u32], reducers: u32) -> Vec<Shuffled> {
    let mut shuffled = vec![Shuffled::default(); reducers as usize];
    for (word, count) in (0..).zip(text).filter(|(_, count)| **count > 0) {
        // Hash partitioning, the default of the paper's §4.1.
        let to = &mut shuffled[scale((mix(word) >> 32) as u32, reducers) as usize];
        let records = if spec.combine { 1 } else { u64::from(*count) };
        to.records += records;
        to.bytes += records * (letters(word) + COUNT_BYTES);
        to.words += u64::from(*count);
        to.read += u64::from(*count) * (letters(word) + 1);
        to.different += 1;
    }
    shuffled
}

/// Returns the number of letters of a word. Words are numbered in the sequence a, b, ... z, aa, ab, ..., so that
/// frequent words are short.
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

fn takes(spec: &WordCount, records: u64) -> Time {
    Time::from_secs_f64(records as f64 / f64::from(spec.words_per_s))
}

/// Returns the memory loads of a mapper: its text and, if the mapper combines equal words, its counts.
fn map_loads(spec: &WordCount, to: &[Shuffled]) -> TaskLoads {
    let sum = |of: fn(&Shuffled) -> u64| to.iter().map(of).sum::<u64>();
    let scattered = if spec.combine { sum(|to| to.words) } else { 0 };
    let among = sum(|to| to.different) * LINE_BYTES;
    TaskLoads { fresh: sum(|to| to.read), scattered, among, ..TaskLoads::default() }
}

/// Returns the memory loads of a reducer: the data that it receives, and its counts.
fn reduce_loads(spec: &WordCount, reducers: usize, records: u64, bytes: u64) -> TaskLoads {
    let among = u64::from(spec.vocabulary) / reducers as u64 * LINE_BYTES;
    TaskLoads { came: bytes, scattered: records, among: among.max(LINE_BYTES), ..TaskLoads::default() }
}

/// Returns the tasks for all texts as one round, in which some cores map while other cores send.
fn pipeline(spec: &WordCount, texts: &[Vec<Vec<Shuffled>>], first_reducer: u32) -> Tasks {
    let mut builder = Builder::new();
    for text in texts {
        let map = |(mapper, to): (u32, &Vec<Shuffled>)| {
            let takes = takes(spec, spec.words.into());
            let map = match spec.shuffle {
                // Any mapper can reach the text, and the other mappers can reach its output (DRack §2.4).
                Shuffle::First => builder.anywhere(mapper, takes),
                Shuffle::Stages | Shuffle::Own => builder.task(mapper, takes),
            };
            builder.loads(map, map_loads(spec, to));
            map
        };
        let maps: Vec<u32> = (0..).zip(text).map(map).collect();
        // Senders, each with the outputs of the mappers for which it sends.
        let senders: Vec<(u32, &[Vec<Shuffled>])> = match spec.shuffle {
            Shuffle::First => vec![(0, text)],
            Shuffle::Stages | Shuffle::Own => (0..).zip(text.chunks(1)).collect(),
        };
        for (sender, outputs) in senders {
            let sends = builder.keeps(sender);
            let from = &maps[sender as usize..sender as usize + outputs.len()];
            from.iter().for_each(|map| builder.after(*map, sends));
            let mut arrivals = Vec::new();
            for reducer in 0..outputs[0].len() {
                let sum = |of: fn(&Shuffled) -> u64| outputs.iter().map(|to| of(&to[reducer])).sum::<u64>();
                let (records, bytes) = (sum(|to| to.records), sum(|to| to.bytes));
                if records > 0 {
                    let rank = first_reducer + reducer as u32;
                    let arrives = builder.task(rank, Time::ZERO);
                    builder.send(sends, arrives, bytes);
                    let reduces = builder.task(rank, takes(spec, records));
                    builder.loads(reduces, reduce_loads(spec, outputs[0].len(), records, bytes));
                    builder.after(arrives, reduces);
                    arrivals.push(arrives);
                }
            }
            let frees = builder.frees(sender);
            builder.after(sends, frees);
            arrivals.into_iter().for_each(|arrives| builder.after(arrives, frees));
        }
    }
    builder.finish()
}

/// Returns the tasks for one text as a round, in which ranks first map and then reduce.
fn stage(spec: &WordCount, shuffled: &[Vec<Shuffled>], first_reducer: u32) -> Tasks {
    let takes = |records| takes(spec, records);
    let mut builder = Builder::new();
    let map = |(mapper, to): (u32, &Vec<Shuffled>)| {
        let map = builder.task(mapper, takes(spec.words.into()));
        builder.loads(map, map_loads(spec, to));
        map
    };
    let maps: Vec<u32> = (0..).zip(shuffled).map(map).collect();
    let reducers = shuffled[0].len();
    let reduces: Vec<u32> = (0..reducers)
        .map(|reducer| {
            let sum = |of: fn(&Shuffled) -> u64| shuffled.iter().map(|to| of(&to[reducer])).sum::<u64>();
            let (records, bytes) = (sum(|to| to.records), sum(|to| to.bytes));
            let reduces = builder.task(first_reducer + reducer as u32, takes(records));
            builder.loads(reduces, reduce_loads(spec, reducers, records, bytes));
            reduces
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
    use crate::jobs::ComputedJob;
    use crate::jobs::tests::{jobs_on, run_in};
    use unrack_rack::jobs::PlacementPolicy;

    fn spec(reducers: Option<u32>, combine: bool) -> WordCount {
        let (vocabulary, exponent, words_per_s) = (5_000, 1.0, 1_000_000);
        let shuffle = Shuffle::Stages;
        WordCount {
            words: 20_000,
            reducers,
            vocabulary,
            exponent,
            combine,
            words_per_s,
            iterations: 2,
            shuffle,
        }
    }

    #[test]
    fn every_word_is_counted_once() {
        for (reducers, mappers) in [(None, 6), (Some(2), 4)] {
            let counted = word_count(&spec(reducers, true), 6, 1).unwrap();
            assert_eq!(counted.counts.iter().sum::<u64>(), 2 * mappers * 20_000);
            // Zipf's law: the first word occurs twice as often as the second, and ten times as often as the tenth.
            let ratio = |n: usize| counted.counts[0] as f64 / counted.counts[n - 1] as f64;
            assert!((1.8..2.2).contains(&ratio(2)) && (9.0..11.0).contains(&ratio(10)));
        }
    }

    #[test]
    fn what_is_not_combined_is_sent_word_by_word() {
        let records = |combine| {
            let rounds = word_count(&spec(Some(3), combine), 6, 1).unwrap().rounds;
            // The three mappers compute for 20 ms each. The rest is the computing time of the reducers, which is a
            // microsecond for each record.
            (rounds[0].computed() - Time::from_us(60_000)).as_ns() / 1_000
        };
        assert_eq!(records(false), 60_000);
        assert!(records(true) < 3 * 5_000);
    }

    #[test]
    fn whoever_sends_sends_all_of_it() {
        let of = |shuffle| word_count(&WordCount { shuffle, ..spec(Some(2), false) }, 6, 1).unwrap().rounds;
        let bytes = |rounds: Vec<Arc<Tasks>>| {
            rounds.iter().flat_map(|round| round.messages()).map(|(_, _, bytes)| bytes).sum::<u64>()
        };
        let staged = bytes(of(Shuffle::Stages));
        assert_eq!([bytes(of(Shuffle::Own)), bytes(of(Shuffle::First))], [staged, staged]);
        assert!(of(Shuffle::First)[0].messages().all(|(from, _, _)| from == 0));
    }

    /// Jobs with every kind of shuffle end. In this test, messages take no time, so that sending does not prevent a
    /// mapper from mapping.
    #[test]
    fn all_ways_to_shuffle_come_to_an_end() {
        for shuffle in [Shuffle::Stages, Shuffle::Own, Shuffle::First] {
            for policy in [PlacementPolicy::FirstFit, PlacementPolicy::ShuffleWatcher] {
                let spec = WordCount { shuffle, iterations: 3, ..spec(Some(2), true) };
                let job = |seed| ComputedJob::new("job", 4, word_count(&spec, 4, seed).unwrap().rounds);
                let mut jobs = jobs_on(4, vec![job(1), job(2)], policy, 2);
                let (_, ended) = run_in(&mut jobs, |waiting| waiting / 2);
                // Three texts of 20 ms each, and the computing time of the reducers.
                assert!(
                    ended >= Time::from_us(60_000) && ended < Time::from_us(90_000),
                    "{shuffle:?} {ended}"
                );
            }
        }
    }

    #[test]
    fn words_grow_longer() {
        assert_eq!([0, 25, 26, 26 + 675, 26 + 676].map(letters), [1, 1, 2, 2, 3]);
        assert!(word_count(&spec(Some(6), true), 6, 1).is_err());
    }
}
