//! Names of the program's memory regions: files, heap, stack and anonymous mappings.
//!
//! The first mappings are read from `/proc/self/maps`, because QEMU itself loads the program. Later mappings are
//! derived from the system calls that change mappings.

use std::collections::{BTreeMap, HashMap, HashSet};

use unrack_lines::summary::Named;

/// System calls that change mappings, by their numbers on x86-64.
pub(crate) mod call {
    pub(crate) const MMAP: i64 = 9;
    pub(crate) const MUNMAP: i64 = 11;
    pub(crate) const BRK: i64 = 12;
    pub(crate) const MREMAP: i64 = 25;
    pub(crate) const MADVISE: i64 = 28;
}

/// Flag of `mmap` for memory that is not backed by a file.
const MAP_ANONYMOUS: u64 = 0x20;
/// Advice values of `madvise` that release pages, either immediately or when memory is short.
const GIVEN_BACK: [u64; 2] = [4, 8];
/// Advice values of `madvise` that enable or disable huge pages.
const HUGE: u64 = 14;
const NO_HUGE: u64 = 15;
/// Bytes of a huge page.
const HUGE_BYTES: u64 = 2 << 20;
/// log2 of the bytes of a page.
const PAGE_SHIFT: u32 = 12;

/// Index of a region's name.
type RegionName = u32;
/// Mark of a range that has no name yet. The range receives the name of the function whose access first misses in it.
const UNNAMED: RegionName = RegionName::MAX;

/// Named address ranges of the program, and the number of cache misses in each.
pub(crate) struct Mappings {
    /// End and name of each range, keyed by its first address.
    ranges: BTreeMap<u64, (u64, RegionName)>,
    /// Range that contains the address of the last miss.
    last: MappedRange,
    names: Vec<Named>,
    indices: HashMap<String, RegionName>,
    /// Pages that the program has accessed since it mapped them.
    pages: HashSet<u64>,
    /// Page of the last miss.
    last_page: u64,
    /// Pages that were removed from `pages` because the program unmapped or replaced them, since
    /// [`take_gone`](Self::take_gone) was last called.
    gone: Vec<u64>,
    /// Ranges of huge pages. The flag after them is set if they changed since [`take_huge`](Self::take_huge) was last
    /// called.
    huge: Vec<(u64, u64)>,
    has_huge_changed: bool,
    new_pages: u64,
    /// Initial program break, which is the beginning of the heap.
    first_break: Option<u64>,
    has_stack: bool,
}

#[derive(Clone, Copy, Default)]
struct MappedRange {
    start: u64,
    end: u64,
    name: RegionName,
}

impl Mappings {
    pub(crate) fn new() -> Mappings {
        Mappings {
            ranges: BTreeMap::new(),
            last: MappedRange::default(),
            names: Vec::new(),
            indices: HashMap::default(),
            pages: HashSet::new(),
            last_page: u64::MAX,
            gone: Vec::new(),
            huge: Vec::new(),
            has_huge_changed: false,
            new_pages: 0,
            first_break: None,
            has_stack: false,
        }
    }

    /// Counts a miss at `address`, caused by the code at `pc`. If the range of the address has no name, it receives the
    /// name of the code's function or, if that is unknown, of the code's file.
    pub(crate) fn count(&mut self, address: u64, function: Option<&str>, pc: u64) {
        self.touch(address >> PAGE_SHIFT);
        if !(self.last.start..self.last.end).contains(&address) {
            self.last = self.find(address, function, pc);
            let MappedRange { start, end, name } = self.last;
            note(&mut self.names[name as usize].ranges, (start, end));
        }
        self.names[self.last.name as usize].misses += 1;
    }

    /// Marks a page as accessed, at the first miss in the page. Counting misses is sufficient, because before the first
    /// miss no cache contains a line of the page.
    fn touch(&mut self, page: u64) {
        if page != self.last_page {
            self.last_page = page;
            self.new_pages += u64::from(self.pages.insert(page));
        }
    }

    /// Returns the total number of pages that the program has accessed for the first time since it mapped them.
    pub(crate) fn new_pages(&self) -> u64 {
        self.new_pages
    }

    /// Removes the pages of a range from the accessed pages, because the range was unmapped or replaced.
    fn forget_pages(&mut self, start: u64, end: u64) {
        let gone = start >> PAGE_SHIFT..end.div_ceil(1 << PAGE_SHIFT);
        self.last_page = u64::MAX;
        if ((gone.end - gone.start) as usize) < self.pages.len() {
            self.gone.extend(gone.filter(|page| self.pages.remove(page)));
        } else {
            let before = self.gone.len();
            self.gone.extend(self.pages.extract_if(|page| gone.contains(page)));
            self.gone[before..].sort_unstable();
        }
    }

    /// Returns the accessed pages that the program has unmapped or replaced since the last call, each page once.
    pub(crate) fn take_gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }

    /// Returns the ranges of huge pages, or `None` if they have not changed since the last call.
    pub(crate) fn take_huge(&mut self) -> Option<&[(u64, u64)]> {
        std::mem::take(&mut self.has_huge_changed).then_some(&self.huge[..])
    }

    /// Enables or disables huge pages in those parts of a range that are whole huge pages. The kernel may use small
    /// pages instead if huge pages are short, which the recorder cannot detect.
    fn set_huge(&mut self, start: u64, end: u64, is_huge: bool) {
        let mut others = Vec::new();
        for (first, last) in self.huge.drain(..) {
            others.extend(
                [(first, last.min(start)), (first.max(end), last)].into_iter().filter(|(a, b)| a < b),
            );
        }
        self.huge = others;
        let whole = (start.next_multiple_of(HUGE_BYTES), end & !(HUGE_BYTES - 1));
        if is_huge && whole.0 < whole.1 {
            self.huge.push(whole);
        }
        self.has_huge_changed = true;
    }

    /// Returns the names of ranges with their misses, in descending order of misses.
    pub(crate) fn summary(&self) -> Vec<Named> {
        let mut names: Vec<Named> = self.names.iter().filter(|named| named.misses > 0).cloned().collect();
        names.sort_by(|a, b| b.misses.cmp(&a.misses).then_with(|| a.name.cmp(&b.name)));
        names
    }

    /// Resets all counts of misses to 0, because a forked child process counts only its own misses.
    pub(crate) fn forget_counts(&mut self) {
        self.names.iter_mut().for_each(|named| (named.misses, named.ranges) = (0, Vec::new()));
        self.last = MappedRange::default();
        self.new_pages = 0;
    }

    /// Returns the name of the file that is mapped at `address`, without its directory.
    pub(crate) fn file(&mut self, address: u64) -> Option<&str> {
        let range = self.known(address).or_else(|| {
            self.read();
            self.known(address)
        })?;
        let name = self.names.get(range.name as usize)?.name.as_str();
        name.starts_with('/').then(|| name.rsplit('/').next().unwrap_or(name))
    }

    fn find(&mut self, address: u64, function: Option<&str>, pc: u64) -> MappedRange {
        if self.known(address).is_none() {
            self.read();
        }
        let range =
            self.known(address).unwrap_or(MappedRange { start: address, end: address + 1, name: UNNAMED });
        if range.name != UNNAMED {
            return range;
        }
        let name = match self.has_stack {
            true => {
                let place = function.or_else(|| self.file(pc)).unwrap_or("generated code");
                format!("anonymous, first missed by {place}")
            }
            // The first access of the loader is to its stack.
            false => "[stack]".into(),
        };
        self.has_stack = true;
        let name = self.name(name);
        self.ranges.insert(range.start, (range.end, name));
        MappedRange { name, ..range }
    }

    fn known(&self, address: u64) -> Option<MappedRange> {
        let (start, (end, name)) = self.ranges.range(..=address).next_back()?;
        (address < *end).then_some(MappedRange { start: *start, end: *end, name: *name })
    }

    fn name(&mut self, name: String) -> RegionName {
        if let Some(index) = self.indices.get(&name) {
            return *index;
        }
        let index = self.names.len() as RegionName;
        self.names.push(Named { name: name.clone(), misses: 0, ranges: Vec::new() });
        self.indices.insert(name, index);
        index
    }

    /// Adds the mappings in `/proc/self/maps` that are not known yet.
    fn read(&mut self) {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        for (start, end, path) in maps.lines().filter_map(mapping) {
            let is_free = self.ranges.range(..end).next_back().is_none_or(|(_, (other, _))| *other <= start);
            if is_free {
                let name = if path.starts_with('/') { self.name(path.into()) } else { UNNAMED };
                self.ranges.insert(start, (end, name));
            }
        }
    }

    /// Updates the mappings after a system call that changed them.
    pub(crate) fn changed(&mut self, call: i64, arguments: &[u64; 6], result: i64) {
        let is_error = (-4095..0).contains(&result);
        if is_error {
            return;
        }
        let (result, page) = (result as u64, |bytes: u64| bytes.saturating_add(4095) & !4095);
        match call {
            call::MMAP => {
                let [_, bytes, _, flags, file, _] = *arguments;
                let name = if flags & MAP_ANONYMOUS != 0 { UNNAMED } else { self.file_name(file) };
                self.set(result, result.saturating_add(page(bytes)), Some(name));
            }
            call::MUNMAP => self.set(arguments[0], arguments[0].saturating_add(page(arguments[1])), None),
            call::MREMAP => {
                let [old, old_bytes, new_bytes, ..] = *arguments;
                let name = self.known(old).map_or(UNNAMED, |range| range.name);
                self.set(old, old.saturating_add(page(old_bytes)), None);
                self.set(result, result.saturating_add(page(new_bytes)), Some(name));
            }
            call::BRK => {
                let first = *self.first_break.get_or_insert(result);
                if result > first {
                    let name = self.name("[heap]".into());
                    self.rename(first, result, Some(name));
                }
            }
            call::MADVISE if GIVEN_BACK.contains(&arguments[2]) => {
                self.forget_pages(arguments[0], arguments[0].saturating_add(page(arguments[1])));
            }
            call::MADVISE if [HUGE, NO_HUGE].contains(&arguments[2]) => {
                self.set_huge(
                    arguments[0],
                    arguments[0].saturating_add(page(arguments[1])),
                    arguments[2] == HUGE,
                );
            }
            _ => {}
        }
    }

    fn file_name(&mut self, descriptor: u64) -> RegionName {
        match std::fs::read_link(format!("/proc/self/fd/{}", descriptor as i32)) {
            Ok(path) => self.name(path.to_string_lossy().into_owned()),
            Err(_) => UNNAMED,
        }
    }

    /// Replaces the memory of a range: by a new mapping with this name, or by no mapping if there is no name.
    fn set(&mut self, start: u64, end: u64, name: Option<RegionName>) {
        if start < end {
            self.forget_pages(start, end);
            self.rename(start, end, name);
            if self.huge.iter().any(|(first, last)| *first < end && start < *last) {
                self.set_huge(start, end, false);
            }
        }
    }

    /// Sets or removes the name of a range. If a known range is only partly in it, the remaining parts keep their name.
    fn rename(&mut self, start: u64, end: u64, name: Option<RegionName>) {
        self.last = MappedRange::default();
        let overlapping = self.ranges.range(..end).rev().take_while(|(_, (other, _))| *other > start);
        let overlapping: Vec<_> = overlapping.map(|(other, range)| (*other, *range)).collect();
        for (other, (other_end, other_name)) in overlapping {
            self.ranges.remove(&other);
            if other < start {
                self.ranges.insert(other, (start, other_name));
            }
            if other_end > end {
                self.ranges.insert(end, (other_end, other_name));
            }
        }
        if let Some(name) = name {
            self.ranges.insert(start, (end, name));
        }
    }
}

/// Adds a range to a list of ranges. A listed range with the same first address is replaced, because heaps grow.
fn note(ranges: &mut Vec<(u64, u64)>, (start, end): (u64, u64)) {
    match ranges.iter_mut().find(|(known, _)| *known == start) {
        Some((_, known)) => *known = end.max(*known),
        None => ranges.push((start, end)),
    }
}

/// Parses the range and the path of a line of `/proc/self/maps`.
fn mapping(line: &str) -> Option<(u64, u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let path = words.nth(4).map_or("", |first| &line[line.find(first).unwrap_or(line.len())..]);
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(mappings: &Mappings, pages: u64) -> Vec<Option<RegionName>> {
        (0..pages).map(|page| mappings.known(page * 4096).map(|range| range.name)).collect()
    }

    proptest! {
        #[test]
        fn ranges_are_as_a_table_of_pages(
            changes in prop::collection::vec((0u64..40, 1u64..20, prop::option::of(0u32..5)), 1..60)
        ) {
            let mut mappings = Mappings::new();
            let mut pages = vec![None; 64];
            for (first, count, name) in changes {
                mappings.set(first * 4096, (first + count) * 4096, name);
                pages[first as usize..(first + count) as usize].fill(name);
                prop_assert_eq!(&names(&mappings, 64), &pages);
            }
        }
    }

    #[test]
    fn calls_name_memory() {
        let mut mappings = Mappings::new();
        mappings.has_stack = true;
        mappings.changed(call::BRK, &[0; 6], 0x10_0000);
        mappings.changed(call::BRK, &[0x10_3000; 6], 0x10_3000);
        mappings.changed(call::MMAP, &[0, 8192, 3, 0x22, u64::MAX, 0], 0x20_0000);
        mappings.changed(call::MMAP, &[0, 8192, 3, 0x22, u64::MAX, 0], -12);
        mappings.changed(call::MREMAP, &[0x20_0000, 8192, 16384, 1, 0, 0], 0x30_0000);
        for (address, function) in [(0x10_2fff, "f"), (0x30_3fff, "g"), (0x30_0000, "h")] {
            mappings.count(address, Some(function), 0);
        }
        let summary = mappings.summary();
        let all: Vec<_> = summary.iter().map(|named| (named.name.as_str(), named.misses)).collect();
        assert_eq!(all, [("anonymous, first missed by g", 2), ("[heap]", 1)]);
        assert_eq!(summary[0].ranges, [(0x30_0000, 0x30_4000)]);
        assert_eq!(summary[1].ranges, [(0x10_0000, 0x10_3000)]);
    }

    #[test]
    fn huge_pages_are_whole_ones_of_what_was_advised() {
        const MIB: u64 = 1 << 20;
        let mut mappings = Mappings::new();
        assert_eq!(mappings.take_huge(), None);
        mappings.changed(call::MADVISE, &[MIB, 8 * MIB, HUGE, 0, 0, 0], 0);
        assert_eq!(mappings.take_huge(), Some(&[(2 * MIB, 8 * MIB)][..]), "1 to 9 MiB has three");
        assert_eq!(mappings.take_huge(), None, "nothing has changed since");
        mappings.changed(call::MADVISE, &[4 * MIB, 2 * MIB, NO_HUGE, 0, 0, 0], 0);
        assert_eq!(mappings.take_huge(), Some(&[(2 * MIB, 4 * MIB), (6 * MIB, 8 * MIB)][..]));
        mappings.changed(call::MUNMAP, &[0, 7 * MIB, 0, 0, 0, 0], 0);
        assert_eq!(mappings.take_huge(), Some(&[(7 * MIB, 8 * MIB)][..]));
    }

    #[test]
    fn pages_are_new_once_until_they_are_given_back() {
        let mut mappings = Mappings::new();
        let mut count = |call, arguments: [u64; 6], result| {
            mappings.changed(call, &arguments, result);
            (0..8).for_each(|line| mappings.count(0x20_0000 + line * 1024, None, 0));
            mappings.new_pages()
        };
        assert_eq!(count(call::MMAP, [0, 8192, 3, 0x22, u64::MAX, 0], 0x20_0000), 2);
        assert_eq!(count(call::MADVISE, [0x20_0000, 4096, 4, 0, 0, 0], 0), 3);
        assert_eq!(count(call::MADVISE, [0x20_0000, 8192, 14, 0, 0, 0], 0), 3, "no page is given back");
        assert_eq!(count(call::MMAP, [0x20_0000, 8192, 3, 0x32, u64::MAX, 0], 0x20_0000), 5);
        assert_eq!(mappings.take_gone(), [0x200, 0x200, 0x201]);
        assert!(mappings.take_gone().is_empty());
    }

    #[test]
    fn lines_of_maps_are_read() {
        let line = "7f00-7f10 r-xp 00000000 fd:00 99    /usr/lib/a file.so";
        assert_eq!(mapping(line), Some((0x7f00, 0x7f10, "/usr/lib/a file.so")));
        assert_eq!(mapping("7f00-7f10 rw-p 00000000 00:00 0"), Some((0x7f00, 0x7f10, "")));
        assert_eq!(mapping("x"), None);
    }

    #[test]
    fn files_of_this_process_are_found() {
        let mut mappings = Mappings::new();
        let own = std::env::current_exe().unwrap();
        let here = files_of_this_process_are_found as *const () as u64;
        assert_eq!(mappings.file(here), own.file_name().unwrap().to_str());
    }
}
