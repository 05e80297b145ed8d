//! Checks whether the machine has idle processors, so that a thread may spin.
//!
//! Spinning makes a single thread faster, but takes the processor from other threads, for example from the peer that the thread waits for.
//! Therefore no thread spins while more threads are runnable than there are processors, according to `/proc/loadavg`. Spinning threads
//! count as runnable. After a crowd was seen, no thread of this process spins for a time. This time doubles while crowds return as soon as
//! spinning does.

use crate::kernel;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two readings of `/proc/loadavg`, in nanoseconds.
const EVERY: u64 = Duration::from_micros(500).as_nanos() as u64;
/// Excess of runnable threads, summed over several readings, that counts as a crowd. A few readings could show chance.
const CROWD: i32 = 8;
/// Shortest and longest time without spinning after a crowd was seen, in nanoseconds.
const LEAST_BAN: u64 = Duration::from_millis(10).as_nanos() as u64;
const MOST_BAN: u64 = Duration::from_secs(1).as_nanos() as u64;

/// All times are in nanoseconds since the first reading in this process.
static NEXT: AtomicU64 = AtomicU64::new(0);
static BANNED_UNTIL: AtomicU64 = AtomicU64::new(0);
static BAN: AtomicU64 = AtomicU64::new(LEAST_BAN);
static SCORE: AtomicI32 = AtomicI32::new(0);

/// Returns whether threads of this process may spin now.
pub(crate) fn may_spin(now: Instant) -> bool {
    if processors() <= 1 {
        return false;
    }
    let now = since_first(now);
    if now < BANNED_UNTIL.load(Ordering::Relaxed) {
        return false;
    }
    let next = NEXT.load(Ordering::Relaxed);
    if now < next || NEXT.compare_exchange(next, now + EVERY, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return true;
    }
    match runnable() {
        Some(threads) => judge(threads as i32 - processors() as i32, now),
        None => true,
    }
}

/// Adds a reading with `excess` runnable threads too many to the score. Returns false if the score amounts to a crowd.
fn judge(excess: i32, now: u64) -> bool {
    let score = (SCORE.load(Ordering::Relaxed) + if excess > 0 { excess } else { -1 }).max(0);
    SCORE.store(if score >= CROWD { 0 } else { score }, Ordering::Relaxed);
    let (ban, until) = (BAN.load(Ordering::Relaxed), BANNED_UNTIL.load(Ordering::Relaxed));
    if score >= CROWD {
        BANNED_UNTIL.store(now + ban, Ordering::Relaxed);
        BAN.store((ban * 2).min(MOST_BAN), Ordering::Relaxed);
        return false;
    }
    if now > until + 2 * ban {
        // No crowd was seen for longer than the last ban.
        BAN.store((ban / 2).max(LEAST_BAN), Ordering::Relaxed);
        BANNED_UNTIL.store(now, Ordering::Relaxed);
    }
    true
}

fn since_first(now: Instant) -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let first = *FIRST.get_or_init(|| now);
    now.saturating_duration_since(first).as_nanos() as u64
}

fn processors() -> u32 {
    static PROCESSORS: AtomicU32 = AtomicU32::new(0);
    let known = PROCESSORS.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let found = std::thread::available_parallelism().map_or(1, |found| found.get() as u32);
    PROCESSORS.store(found, Ordering::Relaxed);
    found
}

/// Returns the number of runnable threads on the whole machine, including those that are running.
fn runnable() -> Option<u32> {
    let mut text = [0_u8; 64];
    let length = kernel::read_file(c"/proc/loadavg", &mut text)?;
    parse(&text[..length])
}

/// Parses `/proc/loadavg`: `0.84 1.14 0.65 RUNNABLE/ALL LAST`. Returns RUNNABLE.
fn parse(text: &[u8]) -> Option<u32> {
    let fourth = text.split(|byte| *byte == b' ').nth(3)?;
    let runnable = fourth.split(|byte| *byte == b'/').next()?;
    std::str::from_utf8(runnable).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_runnable_threads_is_read() {
        assert_eq!(parse(b"0.84 1.14 0.65 12/190 11948\n"), Some(12));
        for wrong in [&b""[..], b"0.84 1.14", b"0.84 1.14 0.65 x/190 1", b"0.84 1.14 0.65 /190"] {
            assert_eq!(parse(wrong), None);
        }
        assert!(runnable().is_some_and(|threads| threads >= 1), "this thread runs");
    }

    #[test]
    fn a_crowd_that_lasts_forbids_spinning_for_ever_longer_and_is_forgotten() {
        let mut now = 1;
        let mut bans = Vec::new();
        for _ in 0..12 {
            // One thread too many is seen by chance; several looks in a row are a crowd.
            assert!((1..CROWD).all(|_| judge(1, now)));
            assert!(!judge(1, now));
            let until = BANNED_UNTIL.load(Ordering::Relaxed);
            bans.push(until - now);
            now = until + 1;
        }
        assert!(bans.windows(2).all(|two| two[1] == (two[0] * 2).min(MOST_BAN)), "{bans:?}");
        assert_eq!(bans.last(), Some(&MOST_BAN));
        for _ in 0..12 {
            now += 3 * MOST_BAN;
            assert!(judge(0, now));
        }
        assert_eq!(BAN.load(Ordering::Relaxed), LEAST_BAN);
        assert!((0..100).all(|look| judge(i32::from(look % 2 == 0), now)), "chance");
    }
}
