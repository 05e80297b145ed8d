//! Events of a thread, as fast as they come: each callback of QEMU appends one to the thread's buffer.
//!
//! All other work is done when the buffer is full, and before each system call.

use crate::code::Code;
use crate::qemu::AccessInfo;

/// Events that a buffer holds while the process has one thread: 64 KiB.
const ALONE: usize = 4096;
/// Events that it holds while there are more: their accesses to the caches they share are ordered by buffers.
const SHARED: usize = 256;

/// Mark of an event that is the execution of a block. No access has it: QEMU uses fewer than 20 bits.
const BLOCK: AccessInfo = AccessInfo::MAX;

/// Event as it is kept.
#[repr(C)]
#[derive(Clone, Copy)]
struct Packed {
    /// Address of an access, or of a [`Code`].
    word: u64,
    /// QEMU's description of an access, or [`BLOCK`].
    info: AccessInfo,
    /// Index of the instruction in its block.
    instruction: u32,
}

/// Event.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// Execution of a block begins.
    Block(&'static Code),
    /// Instruction of that block loads or stores.
    Access { instruction: u16, address: u64, info: AccessInfo },
}

/// Buffer of events.
pub(crate) struct Events {
    kept: Box<[Packed; ALONE]>,
    count: usize,
    limit: usize,
}

impl Events {
    pub(crate) fn new() -> Events {
        let nothing = Packed { word: 0, info: 0, instruction: 0 };
        Events { kept: Box::new([nothing; ALONE]), count: 0, limit: ALONE }
    }

    /// Sets the size of the buffer, from the next time that it is empty.
    pub(crate) fn share(&mut self, is_alone: bool) {
        self.limit = if is_alone { ALONE } else { SHARED };
    }

    /// Appends the execution of a block. Returns whether the buffer is full.
    #[inline(always)]
    pub(crate) fn block(&mut self, code: &'static Code) -> bool {
        self.push(Packed { word: code as *const Code as u64, info: BLOCK, instruction: 0 })
    }

    /// Appends an access. Returns whether the buffer is full.
    #[inline(always)]
    pub(crate) fn access(&mut self, instruction: u32, address: u64, info: AccessInfo) -> bool {
        self.push(Packed { word: address, info, instruction })
    }

    #[inline(always)]
    fn push(&mut self, event: Packed) -> bool {
        // A full buffer is emptied at once, so that this index is always valid.
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
            // SAFETY: only `block` marks events so, and their word is a reference to code that is never freed.
            BLOCK => Event::Block(unsafe { &*(packed.word as *const Code) }),
            info => Event::Access { instruction: packed.instruction as u16, address: packed.word, info },
        })
    }
}
