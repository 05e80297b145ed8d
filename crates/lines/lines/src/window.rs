//! Recorded window: an interval of the execution of one thread. It contains the executed code blocks in order, and the
//! level that served each memory access.

/// Cache level, other core's cache, or memory that served an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServedBy {
    /// First-level data cache.
    L1,
    /// Second-level cache of the core.
    L2,
    /// Last-level cache.
    L3,
    /// Cache of another core, which held a modified copy or the only copy of the line.
    Peer,
    /// Near or remote memory. [`LineAccess::near`] states in which placements it is local memory.
    Memory,
}

/// Memory access of one instruction to one cache line. An access that crosses the boundary of a line is recorded as two
/// accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAccess {
    /// Index of the accessing instruction in its code block.
    pub instruction: u16,
    /// Address of the first accessed byte.
    pub address: u64,
    /// Number of accessed bytes, 1 to 64. All of these bytes are in one line.
    pub bytes: u8,
    /// Whether the access is a store. A [`MemoryUse::Modify`](crate::instruction::MemoryUse::Modify) is recorded as a
    /// load and a store.
    pub is_store: bool,
    /// Level that served the access. If the line was prefetched, this is the level into which the prefetcher fetched
    /// it, even if the line had not arrived yet; the core model computes the time of arrival from [`Prefetch`].
    pub served: ServedBy,
    /// Bit mask with one bit for each placement of pages in local and remote memory. A bit is set if the accessed page is
    /// near in that placement. The mask has a meaning only if memory served the access.
    pub near: u16,
    /// Counts of the loads of page-table entries that the page walk of the access needed. All counts are 0 if a TLB
    /// contained the page.
    pub walk: WalkLoads,
}

/// Number of loads of page-table entries during a page walk, by the level that served them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkLoads {
    /// Whether the second-level TLB contained the page.
    pub is_second_level_hit: bool,
    /// Number of loads that each cache level served: L1, L2, L3.
    pub caches: [u8; 3],
    /// Number of loads that memory served.
    pub memory: u8,
}

/// Line that a hardware prefetcher requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Index in [`RecordedWindow::accesses`] of the access that triggered the prefetch.
    pub after: u32,
    /// Address of the first byte of the line.
    pub line: u64,
    /// Level in which the line was found, L2 or beyond.
    pub served: ServedBy,
    /// Bit mask with one bit for each placement of pages; a bit is set if the line is near in that placement.
    pub near: u16,
}

/// Line that was written to memory: a modified line that the last-level cache evicted, or the line of a non-temporal
/// store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// Index in [`RecordedWindow::accesses`] of the access that caused the write-back.
    pub after: u32,
    /// Address of the first byte of the line.
    pub line: u64,
    /// Bit mask with one bit for each placement of pages; a bit is set if the line is near in that placement.
    pub near: u16,
}

/// Line of code that missed the first-level instruction cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeFetch {
    /// Index in [`RecordedWindow::steps`] of the step that executes the line.
    pub step: u32,
    /// Address of the first byte of the line.
    pub line: u64,
    /// Level in which the line was found, L2 or beyond.
    pub served: ServedBy,
    /// Bit mask with one bit for each placement of pages; a bit is set if the line is near in that placement.
    pub near: u16,
}

/// Step of a window: one execution of a code block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStep {
    /// Index of the executed block in the recording's table of code blocks.
    pub block: u32,
    /// Number of instructions that were executed. It is smaller than the number of the block's instructions if a signal
    /// or a fault ended the execution.
    pub instructions: u16,
    /// Index in [`RecordedWindow::accesses`] of the first access of this step. The accesses of this step end before the
    /// first access of the next step.
    pub first_access: u32,
    /// Whether the branch at the end of the block was mispredicted.
    pub is_mispredicted: bool,
}

/// Recorded window: an interval of the execution of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedWindow {
    /// Number of the thread, counted from 0 in the order in which threads start.
    pub thread: u32,
    /// Number of instructions that the thread had executed before the window.
    pub start: u64,
    /// Number of instructions at the beginning of the window that only fill the pipeline of the core model. Their time
    /// is not counted.
    pub lead: u32,
    /// Executions of code blocks, in order.
    pub steps: Vec<BlockStep>,
    /// Memory accesses, in program order.
    pub accesses: Vec<LineAccess>,
    /// Code fetches, in the order of their steps.
    pub fetches: Vec<CodeFetch>,
    /// Prefetches, in the order of the accesses that triggered them.
    pub prefetches: Vec<Prefetch>,
    /// Write-backs to memory, in the order of the accesses that caused them.
    pub write_backs: Vec<WriteBack>,
}

impl RecordedWindow {
    /// Replaces the placement with the index `placement` in the window. For each line that was requested from memory or
    /// written back, the function sets the placement's bit of the near mask if `is_near` returns true for the address,
    /// and clears the bit otherwise.
    ///
    /// # Panics
    /// If `placement` exceeds 15.
    pub fn mark(&mut self, placement: u32, is_near: impl Fn(u64) -> bool) {
        assert!(placement < 16, "masks have 16 bits");
        let bit = 1 << placement;
        let mark = |near: &mut u16, address| {
            *near = if is_near(address) { *near | bit } else { *near & !bit };
        };
        for access in self.accesses.iter_mut().filter(|access| access.served == ServedBy::Memory) {
            mark(&mut access.near, access.address);
        }
        for fetch in self.fetches.iter_mut().filter(|fetch| fetch.served == ServedBy::Memory) {
            mark(&mut fetch.near, fetch.line);
        }
        for prefetch in self.prefetches.iter_mut().filter(|prefetch| prefetch.served == ServedBy::Memory) {
            mark(&mut prefetch.near, prefetch.line);
        }
        self.write_backs.iter_mut().for_each(|written| mark(&mut written.near, written.line));
    }
}
