//! Kernels that read a stream once per round: a histogram of keys, and the search for a string.

use std::hint::black_box;
use unrack_basis::SplitMix64;

const WORDS: [&str; 8] = ["rack ", "memory ", "line ", "load ", "stored ", "latent ", "far ", "near "];
/// Text to search for. The searched text does not contain it, but often contains its beginning.
const MISSING: &str = "memory latency ";

/// Returns the number of keys of the histogram. The keys of 4 bytes take three quarters of the working set, and the
/// counters take the last quarter.
pub(crate) fn histogram_items(bytes: usize) -> u64 {
    (bytes / 16 * 3) as u64
}

/// Returns the number of bytes of the text that a search reads per round.
pub(crate) fn search_items(bytes: usize) -> u64 {
    bytes as u64
}

/// Counts how often each random key occurs.
pub(crate) fn histogram(bytes: usize, rounds: u64) -> u64 {
    let bins = bytes / 16;
    let mut random = SplitMix64::new(1);
    let keys: Vec<u32> =
        (0..histogram_items(bytes)).map(|_| (random.next_u64() % bins as u64) as u32).collect();
    let mut counts = vec![0u32; bins];
    for _ in 0..rounds {
        black_box(&keys).iter().for_each(|key| counts[*key as usize] += 1);
    }
    counts.iter().fold(0, |sum: u64, count| sum.rotate_left(3) ^ u64::from(*count))
}

/// Searches a text for a string that does not occur in it. The returned checksum sums the number of matches and the
/// length of the text over all rounds.
pub(crate) fn string_search(bytes: usize, rounds: u64) -> u64 {
    let text = text(bytes);
    (0..rounds).map(|_| black_box(&text).matches(MISSING).count() as u64 + text.len() as u64).sum()
}

fn text(bytes: usize) -> String {
    let mut random = SplitMix64::new(2);
    let mut text = String::with_capacity(bytes);
    while text.len() + 8 <= bytes {
        text.push_str(WORDS[(random.next_u64() >> 61) as usize]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_word_is_missing_and_others_are_not() {
        let text = text(64 << 10);
        assert_eq!(text.find(MISSING), None);
        assert!(WORDS.iter().all(|word| text.contains(word)));
        assert_eq!(string_search(64 << 10, 2), 2 * text.len() as u64);
    }

    #[test]
    fn each_key_is_counted() {
        let bins = (64 << 10) / 16;
        let mut random = SplitMix64::new(1);
        let mut counts = vec![0u32; bins];
        for _ in 0..histogram_items(64 << 10) {
            counts[(random.next_u64() % bins as u64) as usize] += 1;
        }
        let expected = counts.iter().fold(0, |sum: u64, count| sum.rotate_left(3) ^ u64::from(*count));
        assert_eq!(histogram(64 << 10, 1), expected);
    }
}
