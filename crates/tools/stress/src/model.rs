//! Model of the program's memory: it defines the expected value of every byte.
//!
//! Bytes are a function of a 64-bit *key*. A key is a function of the writer and of the time of the write, so that a page which comes back
//! from another place, time or process is detected. Key 0 represents zero bytes, which the kernel provides.

use unrack_basis::{GOLDEN_GAMMA, SplitMix64, mix, mix_13};

/// Key of bytes that have never been written.
pub(crate) const ZEROS: u64 = 0;

/// Returns the key of the bytes that `owner` writes at `place` in its write number `version`. The result is never [`ZEROS`].
pub(crate) fn key(seed: u64, owner: u64, version: u64, place: u64) -> u64 {
    let mut k = mix(seed);
    for part in [owner, version, place] {
        k = mix_13(k ^ part.wrapping_mul(GOLDEN_GAMMA));
    }
    k | 1
}

/// Returns word `i` of the bytes of `key`. The words form a Weyl sequence: each word costs one addition, all words of a key differ, and the
/// words of different keys differ.
pub(crate) fn word(key: u64, i: usize) -> u64 {
    if key == ZEROS { 0 } else { key.wrapping_add((i as u64).wrapping_mul(GOLDEN_GAMMA)) }
}

/// Position and values of the first wrong byte.
#[derive(Debug)]
pub(crate) struct WrongByte {
    pub address: usize,
    pub expected: u8,
    pub found: u8,
}

/// Writes the bytes of `key` into `out`.
pub(crate) fn fill(out: &mut [u8], key: u64) {
    let (words, rest) = out.as_chunks_mut::<8>();
    let count = words.len();
    for (i, bytes) in words.iter_mut().enumerate() {
        *bytes = word(key, i).to_le_bytes();
    }
    rest.copy_from_slice(&word(key, count).to_le_bytes()[..rest.len()]);
}

/// Compares all bytes with those of `key`, and returns the first mismatch as an error.
pub(crate) fn check(bytes: &[u8], key: u64) -> Result<(), WrongByte> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (i, found) in words.iter().enumerate() {
        if u64::from_le_bytes(*found) != word(key, i) {
            return compare(found, word(key, i));
        }
    }
    compare(rest, word(key, words.len()))
}

/// Compares up to eight bytes with the first bytes of a word.
fn compare(found: &[u8], expected: u64) -> Result<(), WrongByte> {
    let expected = &expected.to_le_bytes()[..found.len()];
    match found.iter().zip(expected).position(|(f, e)| f != e) {
        None => Ok(()),
        Some(at) => {
            Err(WrongByte { address: found.as_ptr() as usize + at, expected: expected[at], found: found[at] })
        }
    }
}

/// Random number generator. Each thread has one, so that its choices do not depend on other threads.
#[derive(Clone)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    /// Makes a generator.
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(SplitMix64::new(mix_13(seed ^ GOLDEN_GAMMA)))
    }

    /// Returns 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a random number below `n`. `n` must not be 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// Returns a random number from `low` to `high`, inclusive.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Returns true with probability 1/`n`.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_basis::PAGE;

    #[test]
    fn a_changed_byte_is_found_at_any_place_and_length() {
        for len in [1, 7, 8, 9, 100, PAGE] {
            let mut bytes = vec![0; len];
            fill(&mut bytes, 77);
            assert!(check(&bytes, 77).is_ok());
            for at in 0..len {
                bytes[at] ^= 1;
                let mismatch = check(&bytes, 77).expect_err("the change must be seen");
                assert_eq!(mismatch.address, bytes.as_ptr() as usize + at);
                bytes[at] ^= 1;
            }
        }
    }

    #[test]
    fn keys_of_different_writes_differ() {
        let keys = [key(1, 2, 3, 4), key(2, 2, 3, 4), key(1, 3, 3, 4), key(1, 2, 4, 4), key(1, 2, 3, 5)];
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        assert!(!keys.contains(&ZEROS));
    }
}
