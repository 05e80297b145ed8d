//! Recorded stretch of one thread: its blocks in execution order, and the level that served each access.

/// Level or device that served an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServedBy {
    /// First-level data cache.
    L1,
    /// Second level.
    L2,
    /// Last level.
    L3,
    /// Cache of another core, which held the line modified or held the only copy.
    Peer,
    /// Memory. [`LineAccess::near`] gives the placements for which it is near memory.
    Memory,
}

/// Access of one instruction to one line. An access that crosses a line boundary is recorded as two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAccess {
    /// Index of the instruction in its block.
    pub instruction: u16,
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes, 1 to 64. All of them are in one line.
    pub bytes: u8,
    /// Whether it is a store. A [`MemoryUse::Modify`](crate::instruction::MemoryUse::Modify) is recorded as a load
    /// and a store.
    pub is_store: bool,
    /// Level that served it. A prefetched line counts as found in the level that the prefetch filled, even if it had
    /// not yet arrived; the core model computes the arrival from [`Prefetch`].
    pub served: ServedBy,
    /// Bit mask of the placements in which the page is near. It matters only where the request reached memory.
    pub near: u16,
    /// Page walk of the access, by the levels that served its page-table loads. Empty if a TLB contained the page.
    pub walk: WalkLoads,
}

/// Loads of a page walk, counted by the level that served them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkLoads {
    /// Whether the second-level TLB contained the page.
    pub is_second_level_hit: bool,
    /// Loads served by the caches: L1, L2, L3.
    pub caches: [u8; 3],
    /// Loads served by memory.
    pub memory: u8,
}

/// Line that a hardware prefetcher requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Index in [`RecordedWindow::accesses`] of the access that triggered it.
    pub after: u32,
    /// Address of the first byte of the line.
    pub line: u64,
    /// Level in which the line was found, L2 or beyond.
    pub served: ServedBy,
    /// Bit mask of the placements in which its page is near.
    pub near: u16,
}

/// Modified line that was evicted from the last level to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// Index in [`RecordedWindow::accesses`] of the access that caused it.
    pub after: u32,
    /// Address of the first byte of the line.
    pub line: u64,
    /// Bit mask of the placements in which its page is near.
    pub near: u16,
}

/// Line of code that missed the first-level instruction cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeFetch {
    /// Index in [`RecordedWindow::steps`] of the step that executes it.
    pub step: u32,
    /// Address of the first byte of the line.
    pub line: u64,
    /// Level in which the line was found, L2 or beyond.
    pub served: ServedBy,
    /// Bit mask of the placements in which its page is near.
    pub near: u16,
}

/// One execution of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStep {
    /// Index of the block in the recording's table of blocks.
    pub block: u32,
    /// Number of instructions that were executed. It is smaller than the block if a signal or a fault ended the
    /// execution.
    pub instructions: u16,
    /// Index of its first access in [`RecordedWindow::accesses`]. Its accesses end where those of the next step
    /// begin.
    pub first_access: u32,
    /// Whether the branch at its end was mispredicted.
    pub is_mispredicted: bool,
}

/// Recorded window: a stretch of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedWindow {
    /// Number of the thread, counted from 0 in the order in which threads start.
    pub thread: u32,
    /// Instructions that the thread had executed before the window.
    pub start: u64,
    /// Instructions at the beginning that only fill the pipeline. Their time is not counted.
    pub lead: u32,
    /// Executions of blocks, in order.
    pub steps: Vec<BlockStep>,
    /// Accesses, in program order.
    pub accesses: Vec<LineAccess>,
    /// Code fetches, in the order of their steps.
    pub fetches: Vec<CodeFetch>,
    /// Prefetches, in the order of the accesses that triggered them.
    pub prefetches: Vec<Prefetch>,
    /// Write-backs to memory, in the order of the accesses that caused them.
    pub write_backs: Vec<WriteBack>,
}

impl RecordedWindow {
    /// Sets the bit of a placement for each line that was requested from memory and whose address `is_near` accepts,
    /// and clears the bit for the others.
    ///
    /// # Panics
    /// If `placement` is not 0 to 15.
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
