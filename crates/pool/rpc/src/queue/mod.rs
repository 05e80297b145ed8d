//! A queue: a ring of cache lines, one message each, from one sender to one receiver.
//!
//! The sender writes a line after the receiver has read it, and nobody else writes it, so a queue works in memory
//! that is not coherent (HydraRPC §5.2). There are no indices in shared memory: the receiver recognizes an entry
//! that has arrived by its flag, which changes every lap (§5.1). The layer above keeps the sender from
//! overtaking: it has at most as many messages under way as there are lines.
//!
//! The last word of the first line says whether the sender sleeps. Between hosts, where no bell is seen, the receiver
//! reads it before it has the sender woken.
//!
//! One line per message, rather than eight entries in one: a round trip takes 314 ns instead of 340 on the machine
//! where both were measured, and the words beside the entry save a line of the buffer.

pub mod entry;

use crate::wait::{Moment, Pause};
use entry::FLAG;
use std::ptr;
use unrack_pool::cache_control::{LINE, SharedMemory};
use unrack_pool::sync::{AtomicU64, Ordering, fence};

type Line = [AtomicU64; LINE / 8];

/// Returns the bytes of a ring of this many lines.
pub const fn bytes(lines: usize) -> usize {
    lines * size_of::<Line>()
}

/// Number of lines ahead at which the sender prefetches the line that it will write: far enough from the lines
/// that the receiver looks at, which would take it away again.
const CLAIMED: u64 = 8;

/// Bit of the state of a sleep that is set until it ends; the bits above count the sleeps.
const ASLEEP: u64 = 1;
const _: () = assert!(entry::REQUEST < LINE / 8 && entry::ANSWER < LINE / 8);

/// A ring of lines in shared memory, seen from one end.
struct Ring<M> {
    memory: M,
    base: *const Line,
    lines: u64,
    /// Number of messages that this end has sent or received.
    passed: u64,
}

// SAFETY: the memory behind the pointer is only used as atomics, and the maker of the ring keeps it mapped.
unsafe impl<M: Send> Send for Ring<M> {}

impl<M: SharedMemory> Ring<M> {
    /// Makes one end of a ring at `base`.
    ///
    /// # Safety
    /// As [`Sender::new`].
    unsafe fn new(memory: M, base: *mut u8, lines: usize) -> Self {
        assert!(lines.is_power_of_two() && (base as usize).is_multiple_of(LINE));
        Ring { memory, base: base.cast(), lines: lines as u64, passed: 0 }
    }

    #[inline]
    fn line(&self) -> &Line {
        self.ahead(0)
    }

    /// Returns the line `count` lines after the next message's line.
    #[inline]
    fn ahead(&self, count: u64) -> &Line {
        // SAFETY: the index is below the number of lines, which are mapped; atomics may be shared.
        unsafe { &*self.base.add(((self.passed + count) & (self.lines - 1)) as usize) }
    }

    /// Returns the word by which the sender, on another host, announces that it sleeps: the last one of the first line,
    /// which has no entry.
    fn sleep_word(&self) -> &AtomicU64 {
        // SAFETY: the first line is mapped; atomics may be shared.
        unsafe { &(*self.base)[LINE / 8 - 1] }
    }

    /// Returns the flag of entries of this lap: set in the first one, since memory begins as zeros.
    #[inline]
    fn flag(&self) -> u64 {
        if self.passed & self.lines == 0 { FLAG } else { 0 }
    }
}

/// The end of a queue that writes.
pub struct Sender<M> {
    ring: Ring<M>,
    /// State of the sleep that was last announced.
    sleep: u64,
}

impl<M: SharedMemory> Sender<M> {
    /// Makes the sender of a queue at `base`.
    ///
    /// # Safety
    /// `lines` lines from `base` on are mapped as long as this lives, were zero when the queue began, and are
    /// written by nobody else.
    pub unsafe fn new(memory: M, base: *mut u8, lines: usize) -> Self {
        // SAFETY: as the caller says.
        let sender = Sender { ring: unsafe { Ring::new(memory, base, lines) }, sleep: 0 };
        // A host's copy of a line that another channel had is arbitrary. What follows does not write all of this one,
        // and publishes it whole.
        sender.ring.line().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        sender
    }

    /// Sends entries, whose flags must be clear. The line must have been received since it was last sent.
    #[inline(always)]
    pub fn send<const N: usize>(&mut self, entries: [u64; N]) {
        let flag = self.ring.flag();
        let line = self.ring.line();
        // Slices, since an iterator that skips the first is not unrolled.
        for (word, entry) in line[1..].iter().zip(&entries[1..]) {
            word.store(entry | flag, Ordering::Relaxed);
        }
        self.ring.memory.store(&line[0], entries[0] | flag);
        self.ring.passed += 1;
        self.ring.memory.claim(ptr::from_ref(self.ring.ahead(CLAIMED)).cast());
    }

    /// Announces a sleep to the receiver, before the last look for what it sends. Returns the sleep's state.
    pub fn announce_sleep(&mut self) -> u64 {
        self.sleep = (self.sleep & !ASLEEP).wrapping_add(2) | ASLEEP;
        self.ring.memory.store(self.ring.sleep_word(), self.sleep);
        // Pairs with the fence of `wake_sender`: either that look finds what was sent, or the receiver this sleep.
        fence(Ordering::SeqCst);
        self.sleep
    }

    /// Announces that a sleep is over, unless another one was announced since.
    pub fn announce_awake(&mut self, sleep: u64) {
        if self.sleep == sleep {
            self.sleep &= !ASLEEP;
            self.ring.memory.store(self.ring.sleep_word(), self.sleep);
        }
    }

    /// Returns the index of the next message's line.
    pub fn next_line(&self) -> usize {
        (self.ring.passed & (self.ring.lines - 1)) as usize
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> usize {
        self.ring.lines as usize
    }
}

/// The end of a queue that reads.
pub struct Receiver<M> {
    ring: Ring<M>,
    /// State of the sender's sleep that this end last ended.
    ended: u64,
}

impl<M: SharedMemory> Receiver<M> {
    /// Makes the receiver of a queue at `base`.
    ///
    /// # Safety
    /// `lines` lines from `base` on are mapped as long as this lives, and were zero when the queue began.
    pub unsafe fn new(memory: M, base: *mut u8, lines: usize) -> Self {
        // SAFETY: as the caller says.
        Receiver { ring: unsafe { Ring::new(memory, base, lines) }, ended: 0 }
    }

    /// Takes the next message, if all of its entries have arrived. The contents are untrusted input.
    #[inline(always)]
    pub fn receive<const N: usize>(&mut self) -> Option<[u64; N]> {
        let flag = self.ring.flag();
        let line = self.ring.line();
        let mut entries = [self.ring.memory.load(&line[0]); N];
        if entries[0] & FLAG != flag {
            return None;
        }
        for (entry, word) in entries.iter_mut().zip(line).skip(1) {
            *entry = word.load(Ordering::Acquire);
            if *entry & FLAG != flag {
                return None;
            }
        }
        self.ring.passed += 1;
        Some(entries)
    }

    /// Prefetches the line `ahead` after the next message's, which will be read soon. Returns the line's index.
    #[inline(always)]
    pub fn expect(&self, ahead: usize) -> usize {
        self.ring.memory.expect(ptr::from_ref(self.ring.ahead(ahead as u64)).cast());
        (self.ring.passed as usize + ahead) & (self.ring.lines as usize - 1)
    }

    /// Calls `ring` if the sender announces a sleep that was not ended yet. `ring` returns whether it ends the sleep. The
    /// caller has sent before what the sender is to find. Returns false if the sender has to be rung for again.
    pub fn wake_sender(&mut self, ring: impl FnOnce() -> bool) -> bool {
        fence(Ordering::SeqCst);
        let sleep = self.ring.memory.load(self.ring.sleep_word());
        if sleep & ASLEEP == 0 || sleep == self.ended {
            return true;
        }
        let heard = ring();
        if heard {
            self.ended = sleep;
        }
        heard
    }

    /// Returns whether the first entry of the next message has arrived.
    pub fn has_next(&self) -> bool {
        self.ring.memory.load(&self.ring.line()[0]) & FLAG == self.ring.flag()
    }

    /// Returns the first entry of the next message, for code that waits for it.
    pub fn awaited(&self) -> Awaited {
        Awaited { entry: &self.ring.line()[0], flag: self.ring.flag() }
    }
}

/// Entry that has not arrived. Mapped for as long as the receiver it came from.
#[derive(Clone, Copy)]
pub struct Awaited {
    entry: *const AtomicU64,
    flag: u64,
}

impl Awaited {
    /// Pauses until the entry's line is written, or for a moment: see [`Pause::until_written`].
    ///
    /// # Safety
    /// The receiver it came from still exists.
    #[inline]
    pub unsafe fn pause(self, pause: Pause, moment: Moment) -> bool {
        // SAFETY: mapped, as the caller says.
        let entry = unsafe { &*self.entry };
        pause.until_written(entry, moment, || entry.load(Ordering::Acquire) & FLAG == self.flag)
    }
}
