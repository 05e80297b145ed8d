//! The floor: rings of fixed slots, data in place, no allocator and no checks.
//!
//! A slot is a flag and the data behind it; there is one ring for requests and one for answers. Nothing that
//! does more can be faster with the same memory, but for hints to the cache: hence a second row that pushes
//! what was written out of the writer's own caches (`cldemote`), and a third that flushes every line, as
//! memory needs that is shared without being coherent.

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
        // Few enough to stay in the caches, and as many as a window needs if they fit.
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
        // SAFETY: the slot is this side's until its flag is raised.
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

    /// Waits for the slot's flag, then reads its data in place.
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
        // SAFETY: the other side has raised the flag and leaves the slot alone.
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
        // SAFETY: a hint, which changes no contents; a processor without it does nothing.
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
