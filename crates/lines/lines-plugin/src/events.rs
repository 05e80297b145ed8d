//! Event buffer of a thread. A callback from QEMU only appends one event to the buffer, so that callbacks are fast.
//!
//! The events are processed when the buffer is full, and before each system call.

use crate::code::Code;
use crate::qemu::AccessInfo;

/// Capacity of a thread's buffer in events, while the process has only one thread. The buffer then has 64 KiB.
const ALONE: usize = 4096;
/// Capacity of each thread's buffer in events, while the process has several threads. It is smaller, because the
/// accesses of different threads to shared caches are interleaved one buffer at a time.
const SHARED: usize = 256;

/// Value of [`Packed::info`] that marks the execution of a block. No description of an access is equal to it, because
/// QEMU uses fewer than 20 bits.
const BLOCK: AccessInfo = AccessInfo::MAX;

/// Event in the form in which the buffer stores it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Packed {
    /// Address of an access, or pointer to the [`Code`] of a block.
    word: u64,
    /// QEMU's description of an access, or [`BLOCK`].
    info: AccessInfo,
    /// Index of the accessing instruction in its block.
    instruction: u32,
}

/// Event of a thread.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// The execution of a block begins.
    Block(&'static Code),
    /// An instruction of the current block loads or stores.
    Access { instruction: u16, address: u64, info: AccessInfo },
}

/// Buffer of events.
pub(crate) struct EventBuffer {
    kept: Box<[Packed; ALONE]>,
    count: usize,
    limit: usize,
}

impl EventBuffer {
    pub(crate) fn new() -> EventBuffer {
        let nothing = Packed { word: 0, info: 0, instruction: 0 };
        EventBuffer { kept: Box::new([nothing; ALONE]), count: 0, limit: ALONE }
    }

    /// Sets the capacity of the buffer according to whether the process has one thread or several. The buffer must be
    /// empty.
    pub(crate) fn share(&mut self, is_alone: bool) {
        self.limit = if is_alone { ALONE } else { SHARED };
    }

    /// Appends an event for the execution of a block. Returns whether the buffer is now full.
    #[inline(always)]
    pub(crate) fn block(&mut self, code: &'static Code) -> bool {
        self.push(Packed { word: code as *const Code as u64, info: BLOCK, instruction: 0 })
    }

    /// Appends an event for an access. Returns whether the buffer is now full.
    #[inline(always)]
    pub(crate) fn access(&mut self, instruction: u32, address: u64, info: AccessInfo) -> bool {
        self.push(Packed { word: address, info, instruction })
    }

    #[inline(always)]
    fn push(&mut self, event: Packed) -> bool {
        // The index is always valid, because a full buffer is emptied at once.
        self.kept[self.count % ALONE] = event;
        self.count += 1;
        self.count >= self.limit
    }

    /// Empties the buffer.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Returns the events in order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Event> {
        self.kept[..self.count.min(ALONE)].iter().map(|packed| match packed.info {
            // SAFETY: only `block` stores this mark, together with a reference to code that is never freed.
            BLOCK => Event::Block(unsafe { &*(packed.word as *const Code) }),
            info => Event::Access { instruction: packed.instruction as u16, address: packed.word, info },
        })
    }
}
