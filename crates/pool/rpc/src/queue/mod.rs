//! A queue: a ring of cache lines that carries one message per line from one sender to one receiver.
//!
//! The sender writes a line only after the receiver has read the previous message in it, and no other thread writes the
//! line. Therefore a queue works in memory that is not coherent (HydraRPC §5.2). There are no indices in shared memory:
//! the receiver recognizes an entry that has arrived by its flag, whose value alternates from lap to lap (§5.1). The
//! layer above keeps the sender from overwriting unread messages, because it never has more messages in flight than
//! there are lines.
//!
//! In the last word of the first line, the sender announces that it sleeps. Between hosts a process cannot see the wakeup
//! of its peer, so the receiver reads this word before it has the sender woken.
//!
//! A line carries one message rather than eight entries because a round trip then takes 314 ns instead of 340 ns on the
//! machine where both were measured. In addition, the words next to the first entry save a line of the buffer.

pub mod entry;

use crate::wait::{Moment, Pause};
use entry::FLAG;
use std::ptr;
use unrack_pool::cache_control::{LINE, SharedMemory};
use unrack_pool::sync::{AtomicU64, Ordering, fence};

type Line = [AtomicU64; LINE / 8];

/// Returns the size of a ring of this many lines, in bytes.
pub const fn bytes(lines: usize) -> usize {
    lines * size_of::<Line>()
}

/// How many lines ahead of its next message the sender prefetches a line for writing. The distance keeps the prefetched
/// line away from the lines that the receiver polls, because a poll would take the line back from the sender's cache.
const CLAIMED: u64 = 8;

/// Bit that is set in the state of a sleep until the sleep ends. The bits above it count the sleeps.
const ASLEEP: u64 = 1;
const _: () = assert!(entry::REQUEST < LINE / 8 && entry::ANSWER < LINE / 8);

/// A ring of lines in shared memory, seen from one end.
struct Ring<M> {
    memory: M,
    base: *const Line,
    lines: u64,
    /// Number of messages that this end has sent or received so far.
    passed: u64,
}

// SAFETY: the memory behind the pointer is accessed only as atomics, and the maker of the ring keeps it mapped.
unsafe impl<M: Send> Send for Ring<M> {}

impl<M: SharedMemory> Ring<M> {
    /// Makes one end of a ring at `base`.
    ///
    /// # Safety
    /// As for [`Sender::new`].
    unsafe fn new(memory: M, base: *mut u8, lines: usize) -> Self {
        assert!(lines.is_power_of_two() && (base as usize).is_multiple_of(LINE));
        Ring { memory, base: base.cast(), lines: lines as u64, passed: 0 }
    }

    #[inline]
    fn line(&self) -> &Line {
        self.ahead(0)
    }

    /// Returns the line that is `count` lines after the line of the next message.
    #[inline]
    fn ahead(&self, count: u64) -> &Line {
        // SAFETY: the index is below the number of lines, which are mapped; atomics may be shared.
        unsafe { &*self.base.add(((self.passed + count) & (self.lines - 1)) as usize) }
    }

    /// Returns the word in which a sender on another host announces that it sleeps. It is the last word of the first
    /// line, which no entry uses.
    fn sleep_word(&self) -> &AtomicU64 {
        // SAFETY: the first line is mapped; atomics may be shared.
        unsafe { &(*self.base)[LINE / 8 - 1] }
    }

    /// Returns the value of the arrival flag in this lap. The flag is set in the first lap, because memory starts as
    /// zeros.
    #[inline]
    fn flag(&self) -> u64 {
        if self.passed & self.lines == 0 { FLAG } else { 0 }
    }
}

/// The writing end of a queue.
pub struct Sender<M> {
    ring: Ring<M>,
    /// State of the last sleep that this end announced.
    sleep: u64,
}

impl<M: SharedMemory> Sender<M> {
    /// Makes the sender of a queue at `base`.
    ///
    /// # Safety
    /// `lines` lines from `base` on must stay mapped as long as the sender lives, must have been zero when the queue
    /// began, and must not be written by any other thread or process.
    pub unsafe fn new(memory: M, base: *mut u8, lines: usize) -> Self {
        // SAFETY: the caller guarantees it.
        let sender = Sender { ring: unsafe { Ring::new(memory, base, lines) }, sleep: 0 };
        // If another channel used this line before, this host's cached copy of it is arbitrary. Sends do not write the
        // whole line but publish it as a whole, so it is cleared here.
        sender.ring.line().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        sender
    }

    /// Sends the entries of one message, whose flags must be clear. The receiver must have read the previous message in
    /// this line.
    #[inline(always)]
    pub fn send<const N: usize>(&mut self, entries: [u64; N]) {
        let flag = self.ring.flag();
        let line = self.ring.line();
        // The code indexes slices because the compiler does not unroll an iterator that skips its first element.
        for (word, entry) in line[1..].iter().zip(&entries[1..]) {
            word.store(entry | flag, Ordering::Relaxed);
        }
        self.ring.memory.store(&line[0], entries[0] | flag);
        self.ring.passed += 1;
        self.ring.memory.claim(ptr::from_ref(self.ring.ahead(CLAIMED)).cast());
    }

    /// Announces to the receiver that this end will sleep, and returns the state of the sleep. The caller must look
    /// once more for messages after this, and only then sleep.
    pub fn announce_sleep(&mut self) -> u64 {
        self.sleep = (self.sleep & !ASLEEP).wrapping_add(2) | ASLEEP;
        self.ring.memory.store(self.ring.sleep_word(), self.sleep);
        // Pairs with the fence of `wake_sender`: either the caller's last look finds the message, or the receiver sees
        // this sleep.
        fence(Ordering::SeqCst);
        self.sleep
    }

    /// Announces that a sleep is over, unless a later sleep was announced since.
    pub fn announce_awake(&mut self, sleep: u64) {
        if self.sleep == sleep {
            self.sleep &= !ASLEEP;
            self.ring.memory.store(self.ring.sleep_word(), self.sleep);
        }
    }

    /// Returns the index of the line of the next message.
    pub fn next_line(&self) -> usize {
        (self.ring.passed & (self.ring.lines - 1)) as usize
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> usize {
        self.ring.lines as usize
    }
}

/// The reading end of a queue.
pub struct Receiver<M> {
    ring: Ring<M>,
    /// State of the last sleep of the sender that this end has ended.
    ended: u64,
}

impl<M: SharedMemory> Receiver<M> {
    /// Makes the receiver of a queue at `base`.
    ///
    /// # Safety
    /// `lines` lines from `base` on must stay mapped as long as the receiver lives, and must have been zero when the
    /// queue began.
    pub unsafe fn new(memory: M, base: *mut u8, lines: usize) -> Self {
        // SAFETY: the caller guarantees it.
        Receiver { ring: unsafe { Ring::new(memory, base, lines) }, ended: 0 }
    }

    /// Takes the next message if all of its entries have arrived. The contents are untrusted input.
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

    /// Prefetches the line that is `ahead` lines after the line of the next message, because it will be read soon.
    /// Returns the index of that line.
    #[inline(always)]
    pub fn expect(&self, ahead: usize) -> usize {
        self.ring.memory.expect(ptr::from_ref(self.ring.ahead(ahead as u64)).cast());
        (self.ring.passed as usize + ahead) & (self.ring.lines as usize - 1)
    }

    /// Calls `ring` if the sender announces a sleep that this end has not ended yet; `ring` returns whether it woke the
    /// sender. The caller must first have sent the message for which the sender is to wake. Returns false if the caller
    /// must try again later.
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

    /// Returns the first entry of the next message, so that a caller can wait for its arrival.
    pub fn awaited(&self) -> AwaitedEntry {
        AwaitedEntry { entry: &self.ring.line()[0], flag: self.ring.flag() }
    }
}

/// An entry that has not arrived yet. It stays mapped as long as the receiver that returned it.
#[derive(Clone, Copy)]
pub struct AwaitedEntry {
    entry: *const AtomicU64,
    flag: u64,
}

impl AwaitedEntry {
    /// Pauses until the line of the entry is written, or for a short time (see [`Pause::until_written`]).
    ///
    /// # Safety
    /// The receiver that returned this entry must still exist.
    #[inline]
    pub unsafe fn pause(self, pause: Pause, moment: Moment) -> bool {
        // SAFETY: the caller guarantees that the entry is mapped.
        let entry = unsafe { &*self.entry };
        pause.until_written(entry, moment, || entry.load(Ordering::Acquire) & FLAG == self.flag)
    }
}
