//! Cache simulation of the recorded process. While a thread records a window, which is a sampled stretch of its
//! instructions, the outcome of each of its accesses is added to the window.

use crate::code::Code;
use crate::settings::PluginSettings;
use crate::thread::AccessPiece;
use unrack_lines::heat::{HeatCounts, HeatTables};
use unrack_lines::hierarchy::{CacheCounters, Hierarchy, Prefetched, Request, Written};
use unrack_lines::placement::MovedBytes;
use unrack_lines::recording::Header;
use unrack_lines::window::{CodeFetch, LineAccess, Prefetch, RecordedWindow, ServedBy, WriteBack};

/// Number of bits for an instruction's index in its block of translated code. QEMU translates at most 512 instructions
/// at once.
const INSTRUCTION_BITS: u32 = 9;

/// Simulated caches of the recorded process, the simulated placements of its pages, and the number of memory requests
/// to each page (its heat).
pub(crate) struct Caches {
    hierarchy: Hierarchy,
    heat: HeatCounts,
    header: Header,
}

impl Caches {
    /// Creates empty caches.
    ///
    /// # Errors
    /// If the settings ask for a configuration that cannot be simulated.
    pub(crate) fn new(settings: &PluginSettings) -> Result<Caches, String> {
        let hierarchy = Hierarchy::new(&settings.processor, settings.cores, &settings.placements);
        let header = Header {
            processor: settings.processor.to_string(),
            placements: settings.placements.iter().map(|placement| placement.to_string()).collect(),
        };
        Ok(Caches { hierarchy: hierarchy.map_err(|why| why.to_string())?, heat: HeatCounts::new(), header })
    }

    /// Returns the header of a recording that is made with these caches.
    pub(crate) fn header(&self) -> Header {
        self.header.clone()
    }

    /// Returns the cache counts of a thread, such as its hits and misses.
    pub(crate) fn counters(&self, thread: u32) -> CacheCounters {
        self.hierarchy.counters(thread)
    }

    /// Resets all counts to 0, because a forked child process counts only its own accesses.
    pub(crate) fn forget_counts(&mut self) {
        self.hierarchy.forget_counts();
        self.heat = HeatCounts::new();
    }

    /// Advances the simulated time to `instructions`, the number of instructions that all threads have executed so far.
    pub(crate) fn advance(&mut self, instructions: u64) {
        self.hierarchy.advance(instructions);
        self.heat.advance(instructions);
    }

    /// Returns, for each page, the number of requests for its lines that reached memory.
    pub(crate) fn heat(&self) -> HeatTables {
        self.heat.tables()
    }

    /// Returns, for each placement of pages, the memory that the placement has copied between local and remote memory.
    pub(crate) fn moved(&self) -> Vec<MovedBytes> {
        self.hierarchy.moved()
    }

    /// Sets the address ranges that the program has mapped with pages of 2 MiB.
    pub(crate) fn set_huge_pages(&mut self, ranges: &[(u64, u64)]) {
        self.hierarchy.set_huge_pages(ranges);
    }

    /// Forgets a page that the program has released.
    pub(crate) fn forget_page(&mut self, page: u64) {
        self.hierarchy.forget_page(page);
    }

    /// Simulates an access of a thread to one line. If a window is given, the access and its outcome are recorded in
    /// it. Returns whether memory, and not a cache, served the access.
    #[inline]
    pub(crate) fn access(
        &mut self,
        thread: u32,
        code: &Code,
        piece: &AccessPiece,
        window: Option<&mut RecordedWindow>,
    ) -> bool {
        let instruction = u64::from(code.number) << INSTRUCTION_BITS | u64::from(piece.instruction);
        let request = Request { thread, address: piece.address, kind: piece.kind, instruction };
        let outcome = self.hierarchy.access(&request);
        self.heat.count(piece.address, outcome.served, &self.hierarchy);
        if let Some(window) = window {
            self.note_moved(window, window.accesses.len());
            window.accesses.push(LineAccess {
                instruction: piece.instruction,
                address: piece.address,
                bytes: piece.bytes as u8,
                is_store: piece.kind.is_store(),
                served: outcome.served,
                near: outcome.near,
                walk: outcome.walk,
            });
        }
        outcome.served == ServedBy::Memory
    }

    /// Simulates the fetch of a code line. If the instruction cache lacks the line and a window is given, the fetch is
    /// recorded in the window.
    #[inline]
    pub(crate) fn fetch(&mut self, thread: u32, line: u64, window: Option<&mut RecordedWindow>) {
        let Some(found) = self.hierarchy.fetch_code(thread, line) else { return };
        self.heat.count_code(line, found.served, &self.hierarchy);
        let Some(window) = window else { return };
        // A write-back that the fetch caused is attributed to the access before it, because windows index write-backs
        // by access.
        if let Some(after) = window.accesses.len().checked_sub(1) {
            self.note_moved(window, after);
        }
        if let Some(step) = window.steps.len().checked_sub(1) {
            let (served, near) = (found.served, found.near);
            window.fetches.push(CodeFetch { step: step as u32, line, served, near });
        }
    }

    /// Records in a window which lines were written back or prefetched because of the access with index `after`.
    fn note_moved(&self, window: &mut RecordedWindow, after: usize) {
        let after = after as u32;
        let write_backs = self.hierarchy.write_backs().iter();
        window.write_backs.extend(write_backs.map(|&Written { line, near }| WriteBack { after, line, near }));
        let prefetched = self.hierarchy.prefetched().iter();
        window.prefetches.extend(prefetched.map(|&Prefetched { line, served, near }| Prefetch {
            after,
            line,
            served,
            near,
        }));
    }
}
