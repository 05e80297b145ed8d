//! Cache hierarchy of a simulated machine. It determines which level serves each access, and which lines move between
//! the levels.
//!
//! Lines have MESI states, which are stored as flags in each private cache. The second-level cache includes the
//! first-level cache. After a miss in the second-level cache, the model snoops all other private caches, like a machine
//! with a directory that tracks every line. If another core has modified the line, that core supplies it, and the
//! modified copy goes to the last-level cache of the requesting core.
//!
//! Departures: in Intel's server processors, the second-level cache need not include the first-level cache. Because the
//! second-level cache is 20 times larger, this concerns few lines. A line that a prefetcher requests is in the caches
//! immediately; the core model computes later when this line arrives.

mod counters;
mod fill;
mod levels;
mod prefetch;
mod snoop;
#[cfg(test)]
mod tests;

pub use counters::CacheCounters;

use prefetch::Learned;

use crate::cache::{Cache, EXCLUSIVE, LINE_SHIFT, MODIFIED, UNUSED};
use crate::placement::{AccessKind, MovedBytes, PAGE_SHIFT, PagePlacement, Placements};
use crate::processor::{CODE, InclusionPolicy, PageFrames, Processor, ProcessorError, check_cores};
use crate::tlb::{TABLES, Tlb, TranslationResult};
use crate::window::{ServedBy, WalkLoads};

/// Mask of the bits of a line number. Line numbers cover all addresses of a program, and the addresses of the page
/// tables of the model.
const NUMBERS: u64 = (1 << 56) - 1;
/// Number of write-combining buffers of a core. Each of them gathers the stores to one line that bypass the caches.
/// Intel's cores have 10 to 16 fill buffers, which serve as write-combining buffers and also hold misses.
const COMBINING: usize = 8;

/// Kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Load.
    Load,
    /// Store.
    Store,
    /// Non-temporal store, which bypasses the caches.
    NontemporalStore,
}

impl Kind {
    /// Returns whether the access is a store or a non-temporal store.
    pub fn is_store(self) -> bool {
        self != Kind::Load
    }
}

/// Access to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the accessing thread, counted from 0. The thread runs on core `thread % cores`.
    pub thread: u32,
    /// Address of the first byte.
    pub address: u64,
    /// Kind of the access.
    pub kind: Kind,
    /// Number of the accessing instruction, by which the stride prefetcher distinguishes instructions.
    pub instruction: u64,
}

/// Result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessOutcome {
    /// Level that served the access. For a store that bypasses the caches, this is memory, or L1 if a write-combining
    /// buffer was already gathering stores to its line.
    pub served: ServedBy,
    /// If memory served the access, bit mask of the placements in which the accessed page is near; otherwise 0.
    pub near: u16,
    /// Page walk of the access.
    pub walk: WalkLoads,
}

/// Line that was written to memory because of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Address of the first byte of the line.
    pub line: u64,
    /// Bit mask with one bit for each placement of pages; a bit is set if the line is near in that placement.
    pub near: u16,
}

/// Line that a hardware prefetcher fetched because of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetched {
    /// Address of the first byte of the line.
    pub line: u64,
    /// Level that served the line: the second-level cache or a level beyond it.
    pub served: ServedBy,
    /// If memory served the line, bit mask of the placements in which its page is near; otherwise 0.
    pub near: u16,
}

/// Caches, TLBs and prefetchers of a machine.
///
/// [`access`](Self::access) and [`fetch_code`](Self::fetch_code) simulate one access. Afterwards `write_backs` and
/// `prefetched` return the other lines that this access moved.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    cores: Vec<Core>,
    last_levels: Vec<Cache>,
    /// Number of cores that share a last-level cache.
    group: usize,
    content: InclusionPolicy,
    placements: Placements,
    threads: Vec<Thread>,
    huge: Vec<(u64, u64)>,
    write_backs: Vec<Written>,
    prefetched: Vec<Prefetched>,
}

/// Core with its private caches.
#[derive(Clone, Debug)]
struct Core {
    l1: Cache,
    code: Cache,
    l2: Cache,
    tlb: Tlb,
    combining: [u64; COMBINING],
    prefetchers: Learned,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    core: usize,
    counters: CacheCounters,
}

/// Result of a load or store in the first-level cache.
struct Demanded {
    served: ServedBy,
    near: u16,
    /// Whether this is the first use of the line since it was inserted into the first-level cache.
    is_first_use: bool,
}

/// Result of a request to the levels beyond the first-level cache.
struct LevelResult {
    served: ServedBy,
    near: u16,
    flags: u64,
}

impl Hierarchy {
    /// Creates the empty caches of a machine with `cores` cores.
    ///
    /// # Errors
    /// If a size of the processor, the number of cores, or a placement is out of its range.
    pub fn new(
        processor: &Processor,
        cores: u32,
        placements: &[PagePlacement],
    ) -> Result<Hierarchy, ProcessorError> {
        processor.check()?;
        check_cores(cores)?;
        let core = Core {
            l1: Cache::new(processor.l1.sets(), processor.l1.ways),
            code: Cache::new(CODE.sets(), CODE.ways),
            l2: match processor.frames {
                PageFrames::Hashed => Cache::physical(processor.l2.sets(), processor.l2.ways),
                PageFrames::Same => Cache::new(processor.l2.sets(), processor.l2.ways),
            },
            tlb: Tlb::new(processor),
            combining: [u64::MAX; COMBINING],
            prefetchers: Learned::new(processor.prefetchers, processor.streams),
        };
        let last_level = Cache::shared(processor.l3.sets(), processor.l3.ways);
        Ok(Hierarchy {
            cores: vec![core; cores as usize],
            last_levels: vec![last_level; cores.div_ceil(processor.l3_cores) as usize],
            group: processor.l3_cores as usize,
            content: processor.l3_content,
            placements: Placements::new(placements)?,
            threads: Vec::new(),
            huge: Vec::new(),
            write_backs: Vec::new(),
            prefetched: Vec::new(),
        })
    }

    /// Sets which pages are 2 MiB pages. Each element of `ranges` is the first address of a range and the address after
    /// its end. All pages outside these ranges are 4 KiB pages.
    pub fn set_huge_pages(&mut self, ranges: &[(u64, u64)]) {
        self.huge = ranges.to_vec();
        self.cores.iter_mut().for_each(|core| core.tlb.forget_last());
    }

    /// Sets the far address ranges of the placement with the index `placement`, which has to be a
    /// [`PagePlacement::Ranges`].
    pub fn set_far_ranges(&mut self, placement: usize, ranges: &[(u64, u64)]) {
        self.placements.set_far_ranges(placement, ranges);
    }

    /// Advances the time of the placements to `instructions`, which is the number of instructions that all threads
    /// together have executed. Placements that move pages use this number as their clock.
    pub fn advance(&mut self, instructions: u64) {
        self.placements.advance(instructions);
    }

    /// Returns the amount of memory that each placement has moved since the counts were last reset.
    pub fn moved(&self) -> Vec<MovedBytes> {
        self.placements.moved()
    }

    /// Removes a 4 KiB page that the program has released. Its lines are removed from the data caches, and its near
    /// memory becomes free.
    ///
    /// Departure: a real machine eventually writes the modified lines of such a page back, whereas this model drops
    /// them.
    pub fn forget_page(&mut self, page: u64) {
        self.placements.forget(page);
        let first = line_of(page << PAGE_SHIFT);
        for line in first..first + (1 << (PAGE_SHIFT - LINE_SHIFT)) {
            for core in &mut self.cores {
                core.l1.remove(line);
                core.l2.remove(line);
            }
            self.last_levels.iter_mut().for_each(|last_level| _ = last_level.remove(line));
        }
    }

    /// Returns the lines that the last access wrote to memory.
    pub fn write_backs(&self) -> &[Written] {
        &self.write_backs
    }

    /// Returns the lines that prefetchers fetched because of the last access, in the order of their requests.
    pub fn prefetched(&self) -> &[Prefetched] {
        &self.prefetched
    }

    /// Returns the counts of a thread. All counts are 0 if the thread has not accessed memory.
    pub fn counters(&self, thread: u32) -> CacheCounters {
        self.threads.get(thread as usize).map_or(CacheCounters::default(), |thread| thread.counters)
    }

    /// Resets all counts and the number of executed instructions to 0. The contents of the caches do not change.
    pub fn forget_counts(&mut self) {
        self.threads.clear();
        self.placements.forget_counts();
    }

    /// Simulates an access to bytes of a single line, and returns the level that served it.
    #[inline]
    pub fn access(&mut self, request: &Request) -> AccessOutcome {
        let number = request.thread as usize;
        if number >= self.threads.len() {
            self.add_threads(number);
        }
        self.write_backs.clear();
        self.prefetched.clear();
        let thread = &mut self.threads[number];
        let core = &mut self.cores[thread.core];
        let is_store = request.kind == Kind::Store;
        let (flags_asked, flags_due) = if is_store { (EXCLUSIVE | UNUSED, EXCLUSIVE) } else { (UNUSED, 0) };
        if core.tlb.is_last(request.address)
            && request.kind != Kind::NontemporalStore
            && let Some(flags) = core.l1.touch(line_of(request.address))
            && *flags & flags_asked == flags_due
        {
            *flags |= if is_store { MODIFIED } else { 0 };
            thread.counters.count(is_store, ServedBy::L1);
            return AccessOutcome { served: ServedBy::L1, near: 0, walk: WalkLoads::default() };
        }
        self.access_further(number, request)
    }

    /// Simulates the fetch of the code line that contains `address`. Returns `None` if the first-level instruction
    /// cache contained the line.
    ///
    /// Departure: a line stays in the instruction cache when the second-level cache evicts this line, and when a store
    /// modifies it.
    #[inline]
    pub fn fetch_code(&mut self, thread: u32, address: u64) -> Option<Prefetched> {
        let number = thread as usize;
        if number >= self.threads.len() {
            self.add_threads(number);
        }
        let core = self.threads[number].core;
        if self.cores[core].code.touch(line_of(address)).is_some() {
            return None;
        }
        self.write_backs.clear();
        self.prefetched.clear();
        let LevelResult { served, near, .. } = self.find_below_l1(number, core, line_of(address), false);
        self.cores[core].code.insert(line_of(address), 0);
        self.threads[number].counters.fetches[served as usize] += 1;
        Some(Prefetched { line: address, served, near })
    }

    #[cold]
    fn add_threads(&mut self, last: usize) {
        for number in self.threads.len()..=last {
            self.threads.push(Thread { core: number % self.cores.len(), counters: CacheCounters::default() });
        }
    }

    /// Simulates an access that is not a simple hit in the first-level cache.
    fn access_further(&mut self, thread: usize, request: &Request) -> AccessOutcome {
        let core = self.threads[thread].core;
        let walk = self.translate(thread, core, request.address);
        let line = line_of(request.address);
        let (served, near) = match request.kind {
            Kind::NontemporalStore => self.bypass(thread, core, line),
            Kind::Load | Kind::Store => {
                let demanded = self.demand(thread, core, line, request.kind == Kind::Store);
                if demanded.is_first_use {
                    self.prefetch(thread, core, request, demanded.served);
                }
                (demanded.served, demanded.near)
            }
        };
        self.threads[thread].counters.count(request.kind.is_store(), served);
        AccessOutcome { served, near, walk }
    }

    /// Translates an address. If this needs a page walk, the function also simulates the loads of page-table entries.
    fn translate(&mut self, thread: usize, core: usize, address: u64) -> WalkLoads {
        if self.cores[core].tlb.is_last(address) {
            return WalkLoads::default();
        }
        let is_huge = self.huge.iter().any(|(first, end)| (*first..*end).contains(&address));
        match self.cores[core].tlb.translate(address, is_huge) {
            TranslationResult::First => WalkLoads::default(),
            TranslationResult::Second => WalkLoads { is_second_level_hit: true, ..WalkLoads::default() },
            TranslationResult::Walk(entries, count) => self.walk(thread, core, &entries[..count as usize]),
        }
    }

    fn walk(&mut self, thread: usize, core: usize, entries: &[u64]) -> WalkLoads {
        let mut walk = WalkLoads::default();
        // A walk loads the page table from its root downwards.
        for entry in entries.iter().rev() {
            match self.demand(thread, core, line_of(*entry), false).served {
                ServedBy::L1 => walk.caches[0] += 1,
                ServedBy::L2 => walk.caches[1] += 1,
                ServedBy::L3 | ServedBy::Peer => walk.caches[2] += 1,
                ServedBy::Memory => walk.memory += 1,
            }
        }
        let counters = &mut self.threads[thread].counters;
        counters.walks += 1;
        counters.walk_misses += u64::from(walk.memory);
        walk
    }

    /// Simulates a store that bypasses the caches. Its line is removed from all data caches.
    fn bypass(&mut self, thread: usize, core: usize, line: u64) -> (ServedBy, u16) {
        let combining = &mut self.cores[core].combining;
        if combining.contains(&line) {
            return (ServedBy::L1, 0);
        }
        combining.rotate_right(1);
        combining[0] = line;
        self.discard(core, line);
        let near = self.write_back(thread, line);
        (ServedBy::Memory, near)
    }

    /// Writes a line to memory. Returns the bit mask of the placements in which the line is near.
    fn write_back(&mut self, thread: usize, line: u64) -> u16 {
        let address = line << LINE_SHIFT;
        let near = self.near(address, AccessKind::Write);
        self.threads[thread].counters.write_backs += 1;
        self.write_backs.push(Written { line: address, near });
        near
    }

    /// Returns the bit mask of the placements in which the memory at `address` is near. Page tables are near in all
    /// placements, because the kernel keeps them in its own memory.
    fn near(&mut self, address: u64, asked: AccessKind) -> u16 {
        if address >= TABLES { u16::MAX } else { self.placements.near(address, asked) }
    }
}

#[inline(always)]
fn line_of(address: u64) -> u64 {
    address >> LINE_SHIFT & NUMBERS
}
