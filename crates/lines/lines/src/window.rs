//! A recorded stretch of one thread: blocks in the order of execution, and where each access was served.

/// Place where an access found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Served {
    /// First-level data cache.
    L1,
    /// Second level.
    L2,
    /// Last level.
    L3,
    /// Cache of another core, which had the line modified, or was the only one that had it.
    Peer,
    /// Memory, near or far: [`LineAccess::near`].
    Memory,
}

/// Access of one instruction to one line. An access that crosses a line is two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAccess {
    /// Index of the instruction in its block.
    pub instruction: u16,
    /// First byte.
    pub address: u64,
    /// Bytes, 1 to 64, all in one line.
    pub bytes: u8,
    /// Tells whether it is a store. A [`MemoryUse::Modify`](crate::instruction::MemoryUse::Modify) is a load and a store.
    pub is_store: bool,
    /// Where its line was found. A line that a prefetch has brought is found where the prefetch put it; the core model
    /// knows from [`Prefetch`] when it arrives.
    pub served: Served,
    /// Placements, a bit each, that have its page near. It counts where memory is asked.
    pub near: u16,
    /// Page walk for it: loads of page-table entries, each with the level that served it. Empty where a TLB had the page.
    pub walk: Walk,
}

/// Loads of a page walk: how many each level served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Tells whether the second-level TLB had the page.
    pub is_second_level_hit: bool,
    /// Loads served by a cache level: L1, L2, L3.
    pub caches: [u8; 3],
    /// Loads served by memory.
    pub memory: u8,
}

/// Line that a hardware prefetcher asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Index of the access that triggered it, in [`RecordedWindow::accesses`].
    pub after: u32,
    /// Address of its first byte.
    pub line: u64,
    /// Place where it was found; nothing below L2 is recorded.
    pub served: Served,
    /// Placements that have its page near.
    pub near: u16,
}

/// Modified line that left the last level for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// Index of the access that caused it, in [`RecordedWindow::accesses`].
    pub after: u32,
    /// Address of its first byte.
    pub line: u64,
    /// Placements that have its page near.
    pub near: u16,
}

/// Line of code that the first-level instruction cache did not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeFetch {
    /// Index of the step that executes it, in [`RecordedWindow::steps`].
    pub step: u32,
    /// Address of its first byte.
    pub line: u64,
    /// Place where it was found; nothing below L2 is recorded.
    pub served: Served,
    /// Placements that have its page near.
    pub near: u16,
}

/// One execution of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStep {
    /// Index of the block in the recording's table.
    pub block: u32,
    /// Instructions that were executed; fewer than the block has where a signal or a fault ended it.
    pub instructions: u16,
    /// Index of its first access in [`RecordedWindow::accesses`]; the last is before the next step's.
    pub first_access: u32,
    /// Tells whether its last branch was mispredicted.
    pub is_mispredicted: bool,
}

/// Recorded stretch of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedWindow {
    /// Thread, counted from 0 in the order of their starts.
    pub thread: u32,
    /// Instructions that the thread had executed before.
    pub start: u64,
    /// Instructions at the beginning that only fill the core: their time is not counted.
    pub lead: u32,
    /// Executions of blocks, in order.
    pub steps: Vec<BlockStep>,
    /// Accesses, in order.
    pub accesses: Vec<LineAccess>,
    /// Fetches of code, in the order of their steps.
    pub fetches: Vec<CodeFetch>,
    /// Prefetches, in the order of what triggered them.
    pub prefetches: Vec<Prefetch>,
    /// Write-backs to memory, in the order of what caused them.
    pub write_backs: Vec<WriteBack>,
}

impl RecordedWindow {
    /// Sets the bit of a placement where `is_near` says that an address is near, and clears it where it is not, of all lines that
    /// memory was asked for.
    ///
    /// # Panics
    /// If the bit is not 0 to 15.
    pub fn mark(&mut self, placement: u32, is_near: impl Fn(u64) -> bool) {
        assert!(placement < 16, "masks have 16 bits");
        let bit = 1 << placement;
        let mark = |near: &mut u16, address| {
            *near = if is_near(address) { *near | bit } else { *near & !bit };
        };
        for access in self.accesses.iter_mut().filter(|access| access.served == Served::Memory) {
            mark(&mut access.near, access.address);
        }
        for fetch in self.fetches.iter_mut().filter(|fetch| fetch.served == Served::Memory) {
            mark(&mut fetch.near, fetch.line);
        }
        for prefetch in self.prefetches.iter_mut().filter(|prefetch| prefetch.served == Served::Memory) {
            mark(&mut prefetch.near, prefetch.line);
        }
        self.write_backs.iter_mut().for_each(|written| mark(&mut written.near, written.line));
    }
}
