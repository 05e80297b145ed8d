//! Moments of pushes, by which an `epoll` set tells of bytes in the order in which they came.
//!
//! A program may send on one connection and then, having waited for nothing, on another, and expect the other end to be told
//! in that order, as the kernel does. No byte depends on these words, so the models leave them out.

use std::sync::atomic::{AtomicU64, Ordering};

/// Pushes whose moment is kept.
const PUSHES: usize = 7;

/// Moments of the last pushes. Written by the sending end.
#[repr(C, align(128))]
#[derive(Default)]
pub(crate) struct Journal {
    /// Pushes so far.
    count: AtomicU64,
    /// The last of them, in turn.
    pushes: [Push; PUSHES],
}

/// A push: the position of its first byte, and its moment, in ticks of a clock that all processors share.
#[repr(C)]
#[derive(Default)]
struct Push {
    position: AtomicU64,
    moment: AtomicU64,
}

impl Journal {
    /// Keeps the moment of a push. The push itself, which follows, makes it known.
    pub(super) fn write_down(&self, position: u64) {
        let count = self.count.load(Ordering::Relaxed);
        let push = &self.pushes[(count % PUSHES as u64) as usize];
        push.position.store(position, Ordering::Relaxed);
        push.moment.store(ticks(), Ordering::Relaxed);
        self.count.store(count.wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns the moment since which there are bytes from a position on, or the oldest that is known. The other end may write
    /// anything here: it spoils an order.
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

/// Returns the processor's clock.
#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns the system's clock, in nanoseconds.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    // SAFETY: all zeros are a time.
    let mut now = unsafe { std::mem::zeroed::<libc::timespec>() };
    // SAFETY: the C library writes its structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

const _: () = assert!(size_of::<Journal>() == 128);
