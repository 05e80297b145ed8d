//! Timestamps of recent writes to a ring. An `epoll` set uses them to report sockets in the order in which their bytes arrived.
//!
//! A program may send on one connection and right afterwards on another, and expect that the receiver sees them in this order, as with the
//! kernel. The correctness of the bytes does not depend on these words, so the models leave them out.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of writes whose timestamps are kept.
const PUSHES: usize = 7;

/// Timestamps of the last writes. Written by the sending end.
#[repr(C, align(128))]
#[derive(Default)]
pub(crate) struct PushTimes {
    /// Writes so far.
    count: AtomicU64,
    /// The last writes, as a circular buffer.
    pushes: [Push; PUSHES],
}

/// A write: the position of its first byte, and its time in ticks of a clock that all processors share.
#[repr(C)]
#[derive(Default)]
struct Push {
    position: AtomicU64,
    moment: AtomicU64,
}

impl PushTimes {
    /// Records the time of a write at a position. The caller publishes the write afterwards.
    pub(super) fn write_down(&self, position: u64) {
        let count = self.count.load(Ordering::Relaxed);
        let push = &self.pushes[(count % PUSHES as u64) as usize];
        push.position.store(position, Ordering::Relaxed);
        push.moment.store(ticks(), Ordering::Relaxed);
        self.count.store(count.wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns the time of the write that contains the position `head`, or the oldest known time. The other end can write anything here,
    /// which spoils only the order of reports.
    pub(super) fn since(&self, head: u64) -> u64 {
        let (mut oldest, mut found) = (u64::MAX, None);
        for push in &self.pushes {
            let (position, moment) =
                (push.position.load(Ordering::Relaxed), push.moment.load(Ordering::Relaxed));
            oldest = oldest.min(moment);
            if position <= head {
                found = found.max(Some((position, moment)));
            }
        }
        found.map_or(oldest, |(_, moment)| moment)
    }
}

/// Returns the processor's timestamp counter.
#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns the system's monotonic clock, in nanoseconds.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    // SAFETY: all zeros are a valid time.
    let mut now = unsafe { std::mem::zeroed::<libc::timespec>() };
    // SAFETY: the C library writes its structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

const _: () = assert!(size_of::<PushTimes>() == 128);
