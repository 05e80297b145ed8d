//! Caches of the process, and what they tell of each access.

use crate::code::Code;
use crate::settings::Settings;
use crate::thread::Piece;
use unrack_lines::heat::{Heat, HeatTables};
use unrack_lines::hierarchy::{CacheCounters, Hierarchy, Prefetched, Request, Written};
use unrack_lines::placement::MovedBytes;
use unrack_lines::recording::Header;
use unrack_lines::window::{CodeFetch, LineAccess, Prefetch, RecordedWindow, Served, WriteBack};

/// Bits of an instruction's index in its block: QEMU translates at most 512 at once.
const INSTRUCTION_BITS: u32 = 9;

/// Caches of the process.
pub(crate) struct Caches {
    hierarchy: Hierarchy,
    heat: Heat,
    header: Header,
}

impl Caches {
    /// Creates empty caches.
    ///
    /// # Errors
    /// If the settings ask for what cannot be simulated.
    pub(crate) fn new(settings: &Settings) -> Result<Caches, String> {
        let hierarchy = Hierarchy::new(&settings.processor, settings.cores, &settings.placements);
        let header = Header {
            processor: settings.processor.to_string(),
            placements: settings.placements.iter().map(|placement| placement.to_string()).collect(),
        };
        Ok(Caches { hierarchy: hierarchy.map_err(|why| why.to_string())?, heat: Heat::new(), header })
    }

    /// Returns what the beginning of a recording says of the caches.
    pub(crate) fn header(&self) -> Header {
        self.header.clone()
    }

    /// Returns the counts of a thread.
    pub(crate) fn counters(&self, thread: u32) -> CacheCounters {
        self.hierarchy.counters(thread)
    }

    /// Sets all counts to 0: a child begins.
    pub(crate) fn forget_counts(&mut self) {
        self.hierarchy.forget_counts();
        self.heat = Heat::new();
    }

    /// Hears how many instructions all threads have executed.
    pub(crate) fn advance(&mut self, instructions: u64) {
        self.hierarchy.advance(instructions);
        self.heat.advance(instructions);
    }

    /// Returns how often memory was asked for each page.
    pub(crate) fn heat(&self) -> HeatTables {
        self.heat.tables()
    }

    /// Returns what each placement has moved.
    pub(crate) fn moved(&self) -> Vec<MovedBytes> {
        self.hierarchy.moved()
    }

    /// Sets which pages are of 2 MiB.
    pub(crate) fn set_huge_pages(&mut self, ranges: &[(u64, u64)]) {
        self.hierarchy.set_huge_pages(ranges);
    }

    /// Forgets a page that the program has given back.
    pub(crate) fn forget_page(&mut self, page: u64) {
        self.hierarchy.forget_page(page);
    }

    /// Makes an access, and notes it in the window if one is recorded. Returns whether memory served it.
    #[inline]
    pub(crate) fn access(
        &mut self,
        thread: u32,
        code: &Code,
        piece: &Piece,
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
        outcome.served == Served::Memory
    }

    /// Fetches a line of code, and notes it in the window if one is recorded and the instruction cache has not had it.
    #[inline]
    pub(crate) fn fetch(&mut self, thread: u32, line: u64, window: Option<&mut RecordedWindow>) {
        let Some(found) = self.hierarchy.fetch_code(thread, line) else { return };
        self.heat.count_code(line, found.served, &self.hierarchy);
        let Some(window) = window else { return };
        // Modified lines that make way for code leave with the access before it.
        if let Some(after) = window.accesses.len().checked_sub(1) {
            self.note_moved(window, after);
        }
        if let Some(step) = window.steps.len().checked_sub(1) {
            let (served, near) = (found.served, found.near);
            window.fetches.push(CodeFetch { step: step as u32, line, served, near });
        }
    }

    /// Notes the lines that moved at an access.
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
