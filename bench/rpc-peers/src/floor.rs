//! The lower bound of a call's time: rings of fixed slots with data in place, without an allocator and without checks.
//!
//! There is one ring for requests and one for answers. A slot is a flag, followed by the data. A library that does more
//! work cannot be faster in the same memory, unless it gives hints to the cache. Therefore there are two more variants:
//! one that pushes written lines out of the writer's caches (`cldemote`), and one that flushes every line, as shared
//! memory without cache coherence requires.

use crate::harness::{Peer, Place, SHARED, Timed};
use crate::work::{fill, sum};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

pub struct FixedSlots {
    name: &'static str,
    cache: Cache,
}

#[derive(Clone, Copy, PartialEq)]
enum Cache {
    Plain,
    Demote,
    Flush,
}

const LINE: usize = 64;
const WINDOW: usize = 16;

impl FixedSlots {
    pub const PLAIN: Self = Self { name: "floor", cache: Cache::Plain };
    pub const DEMOTING: Self = Self { name: "floor, cldemote", cache: Cache::Demote };
    pub const FLUSHING: Self = Self { name: "floor, flushing", cache: Cache::Flush };
}

/// One ring of slots in memory that two processes map.
struct Ring {
    base: *mut u8,
    slots: usize,
    stride: usize,
    size: usize,
    cache: Cache,
}

impl Ring {
    fn pair(place: &Place, size: usize, cache: Cache) -> io::Result<(Self, Self)> {
        let base = place.map()?;
        let stride = (8 + size).next_multiple_of(LINE);
        // Few enough slots to stay in the caches, but at least as many as a window needs, if that many fit.
        let most = SHARED / 2 / stride;
        let slots = ((1 << 20) / stride).clamp(WINDOW + 2, 64).min(most);
        // SAFETY: both halves are inside the mapping.
        let half = |index| unsafe { base.add(index * SHARED / 2) };
        let ring = |index| Self { base: half(index), slots, stride, size, cache };
        Ok((ring(0), ring(1)))
    }

    fn slot(&self, index: usize) -> *mut u8 {
        // SAFETY: the remainder is below the number of slots, which all lie in the mapping.
        unsafe { self.base.add(index % self.slots * self.stride) }
    }

    fn lap(&self, index: usize) -> u64 {
        (index / self.slots) as u64 + 1
    }

    /// Writes the slot's data in place, then raises its flag.
    #[inline]
    fn send(&self, index: usize, write: impl FnOnce(&mut [u8])) {
        let slot = self.slot(index);
        // SAFETY: only this side accesses the slot until its flag is raised.
        write(unsafe { std::slice::from_raw_parts_mut(slot.add(8), self.size) });
        if self.cache == Cache::Flush {
            flush(slot, self.stride);
        }
        // SAFETY: the flag is aligned, and both sides use it as an atomic only.
        unsafe { &*slot.cast::<AtomicU64>() }.store(self.lap(index), Ordering::Release);
        match self.cache {
            Cache::Plain => {}
            Cache::Demote => demote(slot, self.stride),
            Cache::Flush => flush(slot, LINE),
        }
    }

    /// Waits for the slot's flag, then reads the slot's data in place and returns their sum.
    #[inline]
    fn receive(&self, index: usize) -> u64 {
        let slot = self.slot(index);
        // SAFETY: as in `send`.
        let flag = unsafe { &*slot.cast::<AtomicU64>() };
        while flag.load(Ordering::Acquire) != self.lap(index) {
            match self.cache {
                Cache::Flush => flush(slot, LINE),
                _ => std::hint::spin_loop(),
            }
        }
        if self.cache == Cache::Flush {
            flush(slot, self.stride);
        }
        // SAFETY: the other side has raised the flag, and does not access the slot after that.
        sum(unsafe { std::slice::from_raw_parts(slot.add(8), self.size) })
    }
}

impl Peer for FixedSlots {
    fn name(&self) -> &'static str {
        self.name
    }

    fn serve(&self, place: &Place, size: usize) -> io::Result<()> {
        let (requests, answers) = Ring::pair(place, size, self.cache)?;
        for index in 0.. {
            let seed = requests.receive(index);
            answers.send(index, |answer| fill(answer, seed));
        }
        Ok(())
    }

    fn client(&self, place: &Place, size: usize, timed: &mut Timed) -> io::Result<()> {
        let (requests, answers) = Ring::pair(place, size, self.cache)?;
        let mut index = 0;
        timed.run(|| {
            requests.send(index, |request| fill(request, index as u64));
            std::hint::black_box(answers.receive(index));
            index += 1;
        });
        Ok(())
    }

    fn has_window(&self) -> bool {
        true
    }

    fn windowed(&self, place: &Place, size: usize, timed: &mut Timed) -> io::Result<()> {
        let (requests, answers) = Ring::pair(place, size, self.cache)?;
        let window = WINDOW.min(requests.slots - 1);
        for index in 0..window {
            requests.send(index, |request| fill(request, index as u64));
        }
        let mut index = 0;
        timed.run_windowed(|| {
            requests.send(index + window, |request| fill(request, index as u64));
            std::hint::black_box(answers.receive(index));
            index += 1;
        });
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
fn flush(from: *const u8, bytes: usize) {
    // SAFETY: flushing changes no contents, and the lines are mapped.
    unsafe {
        for offset in (0..bytes).step_by(LINE) {
            std::arch::asm!("clflushopt [{}]", in(reg) from.add(offset), options(nostack, preserves_flags));
        }
        std::arch::x86_64::_mm_mfence();
    }
}

#[cfg(target_arch = "x86_64")]
fn demote(from: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(LINE) {
        // SAFETY: the instruction is a hint that changes no contents; a processor that lacks it executes a no-op.
        unsafe {
            std::arch::asm!("cldemote [{}]", in(reg) from.add(offset), options(nostack, preserves_flags));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn flush(_: *const u8, _: usize) {
    std::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(not(target_arch = "x86_64"))]
fn demote(_: *const u8, _: usize) {}
