//! Kernels that sort random words.

use unrack_basis::SplitMix64;

/// Returns the number of 8-byte words to sort if the working set is one array of `bytes` bytes.
pub(crate) fn items(bytes: usize) -> u64 {
    (bytes / 8) as u64
}

/// Returns the number of 8-byte words to sort if the working set consists of two equal arrays, with `bytes` bytes
/// together.
pub(crate) fn merge_items(bytes: usize) -> u64 {
    (bytes / 16) as u64
}

fn random_words(count: u64, round: u64) -> Vec<u64> {
    let mut random = SplitMix64::new(round);
    (0..count).map(|_| random.next_u64()).collect()
}

/// Combines every 997th word of a sorted array into a checksum.
fn folded(checksum: u64, words: &[u64]) -> u64 {
    words.iter().step_by(997).fold(checksum, |sum, word| sum.rotate_left(1) ^ word)
}

/// Sorts an array by `sort_unstable` in each round, with different random words each time.
pub(crate) fn sort(bytes: usize, rounds: u64) -> u64 {
    (0..rounds).fold(0, |checksum, round| {
        let mut words = random_words(items(bytes), round);
        words.sort_unstable();
        folded(checksum, &words)
    })
}

/// Sorts an array by merging in each round, with different random words each time.
pub(crate) fn merge_sort(bytes: usize, rounds: u64) -> u64 {
    (0..rounds).fold(0, |checksum, round| folded(checksum, &merged(random_words(merge_items(bytes), round))))
}

/// Sorts words bottom-up by merging sorted runs of 1, 2, 4, ... words (Knuth, TAOCP vol. 3, algorithm 5.2.4 S, but
/// without merging from both ends).
fn merged(words: Vec<u64>) -> Vec<u64> {
    let (mut from, mut to) = (words.clone(), words);
    let mut run = 1;
    while run < from.len() {
        for (pair, target) in from.chunks(2 * run).zip(to.chunks_mut(2 * run)) {
            let (left, right) = pair.split_at(run.min(pair.len()));
            merge(left, right, target);
        }
        (from, to) = (to, from);
        run *= 2;
    }
    from
}

fn merge(left: &[u64], right: &[u64], target: &mut [u64]) {
    let (mut i, mut j) = (0, 0);
    for word in target {
        let takes_left = j == right.len() || (i < left.len() && left[i] <= right[j]);
        if takes_left {
            *word = left[i];
            i += 1;
        } else {
            *word = right[j];
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merging_sorts(words in proptest::collection::vec(0u64..50, 0..100)) {
            let mut expected = words.clone();
            expected.sort_unstable();
            prop_assert_eq!(merged(words), expected);
        }
    }
}
