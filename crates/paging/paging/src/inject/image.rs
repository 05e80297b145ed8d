//! The agent as it is in memory: segments at their places, relocated.
//!
//! Reference: System V ABI, chapters 4 and 5, and its supplement for x86-64.

use unrack_pager::sys::PAGE;

/// The agent, as the build made it (`build.rs`).
static FILE: &[u8] = include_bytes!(env!("UNRACK_AGENT"));

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const SYMBOLS: u64 = 6;
const STRINGS: u64 = 5;
const HASH: u64 = 0x6fff_fef5;
const RELOCATIONS: u64 = 7;
const RELOCATIONS_LEN: u64 = 8;
const RELATIVE: u64 = 8;
const EXECUTABLE: u32 = 1;
const WRITABLE: u32 = 2;

/// The agent's segments.
pub(super) struct Image {
    segments: Vec<Segment>,
    dynamic: Vec<(u64, u64)>,
    /// Bytes from the first segment's beginning to the last one's end.
    pub len: usize,
}

struct Segment {
    flags: u32,
    address: usize,
    file: std::ops::Range<usize>,
    len: usize,
}

/// Part of the image that cannot be written once it is in place.
pub(super) struct Sealed {
    pub at: usize,
    pub len: usize,
    pub is_code: bool,
}

impl Image {
    /// Reads the agent. The build made it, so that it is whole; where it is not, this says what the build did wrong.
    pub(super) fn new() -> Image {
        let (table, count) = (u64_at(32) as usize, u16_at(56) as usize);
        let (mut segments, mut dynamic) = (Vec::new(), Vec::new());
        for n in 0..count {
            let at = table + n * 56;
            let (offset, address) = (u64_at(at + 8) as usize, u64_at(at + 16) as usize);
            let (in_file, len) = (u64_at(at + 32) as usize, u64_at(at + 40) as usize);
            match u32_at(at) {
                LOAD => segments.push(Segment {
                    flags: u32_at(at + 4),
                    address,
                    file: offset..offset + in_file,
                    len,
                }),
                DYNAMIC => dynamic.extend((0..in_file / 16).map(|n| {
                    let entry = offset + n * 16;
                    (u64_at(entry), u64_at(entry + 8))
                })),
                _ => {}
            }
        }
        let end = segments.iter().map(|segment| segment.address + segment.len).max();
        let len = end.expect("the agent has segments").next_multiple_of(PAGE);
        let is_last = segments.last().is_some_and(|last| last.flags & WRITABLE != 0);
        assert!(is_last, "the agent's data are behind its code");
        Image { segments, dynamic, len }
    }

    /// Returns the contents for address `base`.
    pub(super) fn at(&self, base: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; self.len];
        for segment in &self.segments {
            bytes[segment.address..][..segment.file.len()].copy_from_slice(&FILE[segment.file.clone()]);
        }
        let (table, len) = (self.entry(RELOCATIONS), self.entry(RELOCATIONS_LEN));
        for at in (table..table + len).step_by(24) {
            let (place, kind, addend) =
                (u64_in(&bytes, at) as usize, u64_in(&bytes, at + 8), u64_in(&bytes, at + 16));
            assert!(kind == RELATIVE, "the agent has a relocation of kind {kind}");
            bytes[place..place + 8].copy_from_slice(&(base as u64 + addend).to_le_bytes());
        }
        bytes
    }

    /// Returns the parts that are not writable, in whole pages.
    pub(super) fn sealed(&self) -> impl Iterator<Item = Sealed> {
        let starts = |n: usize| self.segments.get(n).map_or(self.len, |next| next.address / PAGE * PAGE);
        let sealed = self.segments.iter().enumerate().filter(|(_, segment)| segment.flags & WRITABLE == 0);
        sealed.map(move |(n, segment)| Sealed {
            at: starts(n),
            len: starts(n + 1) - starts(n),
            is_code: segment.flags & EXECUTABLE != 0,
        })
    }

    /// Returns the address of a function, from the image's beginning.
    pub(super) fn function(&self, name: &str) -> usize {
        let (symbols, strings) = (self.entry(SYMBOLS), self.entry(STRINGS));
        // The strings follow the symbols, or what else refers to these: it is enough to stop there.
        let end = [strings, self.entry(HASH)].into_iter().filter(|at| *at > symbols).min();
        let end = end.expect("the agent's tables follow its symbols");
        let is_it = |at: &usize| {
            let start = strings + u32_at(self.in_file(*at)) as usize;
            let text = &FILE[self.in_file(start)..];
            text.starts_with(name.as_bytes()) && text[name.len()] == 0
        };
        let found = (symbols..end).step_by(24).find(is_it);
        let found = found.unwrap_or_else(|| panic!("the agent has no function {name}"));
        u64_at(self.in_file(found) + 8) as usize
    }

    fn entry(&self, tag: u64) -> usize {
        let found = self.dynamic.iter().find(|(found, _)| *found == tag);
        found.unwrap_or_else(|| panic!("the agent has no table {tag:#x}")).1 as usize
    }

    fn in_file(&self, address: usize) -> usize {
        let holds =
            |segment: &&Segment| (segment.address..segment.address + segment.file.len()).contains(&address);
        let segment = self.segments.iter().find(holds).expect("the agent's tables are in its segments");
        segment.file.start + address - segment.address
    }
}

fn u16_at(at: usize) -> u16 {
    u16::from_le_bytes([FILE[at], FILE[at + 1]])
}

fn u32_at(at: usize) -> u32 {
    u64_at(at) as u32
}

fn u64_at(at: usize) -> u64 {
    u64_in(FILE, at)
}

fn u64_in(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_whole() {
        let image = Image::new();
        let (low, high) = (image.at(0), image.at(1 << 40));
        assert_eq!((low.len(), high.len()), (image.len, image.len));
        let moved = low.chunks(8).zip(high.chunks(8)).filter(|(a, b)| a != b).count();
        assert!(moved > 0, "something in it has to know where it is");
        let names = [
            "enter",
            "begin",
            "before_fork",
            "after_fork",
            "in_child",
            "merge",
            "receive",
            "borrow",
            "forsake",
        ];
        let code = image.sealed().find(|part| part.is_code).unwrap();
        for name in names {
            let at = image.function(name);
            assert!((code.at..code.at + code.len).contains(&at), "{name}");
        }
        assert!(image.sealed().all(|part| part.at % PAGE == 0 && part.at + part.len <= image.len));
    }
}
