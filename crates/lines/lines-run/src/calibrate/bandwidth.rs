//! Measurement of memory bandwidth, on one core and on all cores: of reads, of copies, of writes that allocate lines in
//! the caches, and of writes that bypass the caches.

use super::bypass;
use super::clock::time_ns;
use super::error::CalibrateError;
use super::memory::{Memory, PageSize};
use super::spread::MeasuredSpread;
use serde::{Deserialize, Serialize};
use std::sync::Barrier;
use std::time::Instant;

/// Bandwidths, in 10^9 bytes that the program itself reads or writes per second. Other transfers are not counted: reads
/// of lines that a write allocates in the caches, and write-backs of evicted lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Number of threads. Each thread accesses its own memory.
    pub threads: u32,
    /// Bandwidth of reads of successive words.
    pub read_gbps: MeasuredSpread,
    /// Bandwidth of writes of successive words.
    pub write_gbps: MeasuredSpread,
    /// Bandwidth of writes that bypass the caches; `None` on processors for which this project does not implement such
    /// writes.
    pub nontemporal_gbps: Option<MeasuredSpread>,
    /// Bandwidth of copies. Each copied byte counts twice, because it is read and written.
    pub copy_gbps: MeasuredSpread,
}

/// Number of bytes that a round moves in [`cached`], by several passes over the working set.
const BYTES: usize = 64 << 20;

/// Words per line.
const WORDS: usize = 8;

/// Pattern in which a thread accesses its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessPattern {
    Read,
    Write,
    Nontemporal,
    Copy,
}

/// Measures the bandwidths with `threads` threads, each of which accesses its own `bytes` bytes.
pub(super) fn measure(threads: usize, bytes: usize, rounds: usize) -> Result<Bandwidth, CalibrateError> {
    let mut memories = Vec::new();
    for _ in 0..threads {
        memories.push((Memory::new(bytes / 2, PageSize::Huge)?, Memory::new(bytes / 2, PageSize::Huge)?));
    }
    let mut gbps = |pattern| MeasuredSpread::rounds(rounds, || together(&mut memories, pattern));
    Ok(Bandwidth {
        threads: threads as u32,
        read_gbps: gbps(AccessPattern::Read),
        write_gbps: gbps(AccessPattern::Write),
        nontemporal_gbps: bypass::IS_KNOWN.then(|| gbps(AccessPattern::Nontemporal)),
        copy_gbps: gbps(AccessPattern::Copy),
    })
}

/// Measures the bandwidth of reads and of copies by one thread that traverses `region` repeatedly, in 10^9 bytes per
/// second. The region is small enough to stay in a cache level.
pub(super) fn cached(region: &mut [u8], rounds: usize) -> (MeasuredSpread, MeasuredSpread) {
    let (a, b) = region.split_at_mut(region.len() / 2);
    let times = (BYTES / (a.len() + b.len())).max(1);
    let mut gbps = |pattern| {
        MeasuredSpread::rounds(rounds, || {
            let ns = time_ns(|| (0..times).for_each(|_| once(a, b, pattern)));
            (times * (a.len() + b.len())) as f64 / ns
        })
    };
    (gbps(AccessPattern::Read), gbps(AccessPattern::Copy))
}

/// Runs an access pattern on several threads at the same time, one for each pair of memories. Returns the sum of their
/// bandwidths, in bytes per nanosecond.
fn together(memories: &mut [(Memory, Memory)], pattern: AccessPattern) -> f64 {
    let barrier = Barrier::new(memories.len());
    let moved: usize = memories.iter().map(|(a, b)| a.bytes().len() + b.bytes().len()).sum();
    let spans: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let run = |(a, b): &mut (Memory, Memory)| {
            barrier.wait();
            let start = Instant::now();
            once(a.bytes_mut(), b.bytes_mut(), pattern);
            (start, Instant::now())
        };
        let threads: Vec<_> = memories.iter_mut().map(|pair| scope.spawn(move || run(pair))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that only moves bytes")).collect()
    });
    let start = spans.iter().map(|span| span.0).min().expect("a thread");
    let end = spans.iter().map(|span| span.1).max().expect("a thread");
    moved as f64 / (end - start).as_nanos().max(1) as f64
}

/// Applies an access pattern to each of the two memories once. A copy goes from `a` to `b`.
fn once(a: &mut [u8], b: &mut [u8], pattern: AccessPattern) {
    match pattern {
        AccessPattern::Read => _ = std::hint::black_box(sum(a).wrapping_add(sum(b))),
        AccessPattern::Write => [a, b].into_iter().for_each(write),
        AccessPattern::Nontemporal => [a, b].into_iter().for_each(bypass::write),
        AccessPattern::Copy => copy(a, b),
    }
}

fn words(bytes: &mut [u8]) -> impl Iterator<Item = &mut [u8; 8]> {
    bytes.as_chunks_mut::<8>().0.iter_mut()
}

/// Reads all words and returns their sum. Each of the eight words of a line has its own partial sum, so that a wait for
/// the previous addition does not limit the rate.
fn sum(bytes: &[u8]) -> u64 {
    let mut sums = [0u64; WORDS];
    for line in bytes.as_chunks::<64>().0 {
        for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}

/// Writes a different value to each word. If all values were equal, the compiler would call `memset`, which may bypass
/// the caches.
fn write(bytes: &mut [u8]) {
    for (value, word) in words(bytes).enumerate() {
        *word = (value as u64).to_le_bytes();
    }
}

/// Copies words and modifies each one. For a plain copy, the compiler would call `memcpy`, which may bypass the caches.
fn copy(from: &mut [u8], to: &mut [u8]) {
    for (from, to) in words(from).zip(words(to)) {
        *to = (!u64::from_le_bytes(*from)).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_do_what_they_say() {
        let (mut a, mut b) = (vec![3u8; 4096], vec![0u8; 4096]);
        once(&mut a, &mut b, AccessPattern::Copy);
        assert!(b.iter().all(|&byte| byte == !3));
        once(&mut a, &mut b, AccessPattern::Write);
        assert_eq!(sum(&a), 511 * 512 / 2);
    }

    #[test]
    fn two_threads_are_measured() {
        let bandwidth = measure(2, 4 << 20, 2).unwrap();
        assert_eq!(bandwidth.threads, 2);
        assert!(bandwidth.copy_gbps.min > 0.0);
    }
}
