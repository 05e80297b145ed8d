//! The memory image of the agent: its segments at their addresses, relocated.
//!
//! Reference: System V ABI, chapters 4 and 5, and its supplement for x86-64.

use ::elf::ElfBytes;
use ::elf::abi::{DT_RELA, DT_RELASZ, PF_W, PF_X, PT_LOAD, R_X86_64_RELATIVE};
use ::elf::endian::LittleEndian;
use ::elf::file::Class;
use ::elf::relocation::RelaIterator;
use ::elf::segment::ProgramHeader;
use unrack_pager::sys::PAGE;

/// The agent's ELF file, as the build made it (`build.rs`).
static FILE: &[u8] = include_bytes!(env!("UNRACK_AGENT"));

/// The agent's segments, from which the memory image is made.
pub(super) struct Image {
    file: ElfBytes<'static, LittleEndian>,
    segments: Vec<ProgramHeader>,
    /// Bytes from the beginning of the first segment to the end of the last one.
    pub len: usize,
}

/// Part of the image that becomes read-only once it is in place.
pub(super) struct Sealed {
    pub at: usize,
    pub len: usize,
    pub is_code: bool,
}

impl Image {
    /// Reads the agent. The file is correct because the build made it; a panic here names the mistake of the build.
    pub(super) fn new() -> Image {
        let file = ElfBytes::minimal_parse(FILE).expect("the agent is an ELF file");
        let all = file.segments().expect("the agent has segments").iter();
        let segments: Vec<_> = all.filter(|segment| segment.p_type == PT_LOAD).collect();
        let end = segments.iter().map(|segment| (segment.p_vaddr + segment.p_memsz) as usize).max();
        let len = end.expect("the agent has segments").next_multiple_of(PAGE);
        let is_last = segments.last().is_some_and(|last| last.p_flags & PF_W != 0);
        assert!(is_last, "the agent's data are behind its code");
        Image { file, segments, len }
    }

    /// Returns the contents of the image for address `base`, with relocations applied.
    pub(super) fn at(&self, base: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; self.len];
        for segment in &self.segments {
            let contents = self.file.segment_data(segment).expect("the agent is whole");
            bytes[segment.p_vaddr as usize..][..contents.len()].copy_from_slice(contents);
        }
        let (table, len) = (self.entry(DT_RELA), self.entry(DT_RELASZ));
        let table = bytes[table..table + len].to_vec();
        for relocation in RelaIterator::new(LittleEndian, Class::ELF64, &table) {
            let kind = relocation.r_type;
            assert!(
                kind == R_X86_64_RELATIVE && relocation.r_sym == 0,
                "the agent has a relocation of kind {kind}"
            );
            let value = base as u64 + relocation.r_addend.cast_unsigned();
            bytes[relocation.r_offset as usize..][..8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Returns the parts that are not writable, in whole pages.
    pub(super) fn sealed(&self) -> impl Iterator<Item = Sealed> {
        let starts =
            |n: usize| self.segments.get(n).map_or(self.len, |next| next.p_vaddr as usize / PAGE * PAGE);
        let sealed = self.segments.iter().enumerate().filter(|(_, segment)| segment.p_flags & PF_W == 0);
        sealed.map(move |(n, segment)| Sealed {
            at: starts(n),
            len: starts(n + 1) - starts(n),
            is_code: segment.p_flags & PF_X != 0,
        })
    }

    /// Returns the address of a function, relative to the beginning of the image.
    pub(super) fn function(&self, name: &str) -> usize {
        let tables = self.file.dynamic_symbol_table().expect("the agent is whole");
        let (symbols, names) = tables.expect("the agent has symbols");
        let is_it = |symbol: &::elf::symbol::Symbol| {
            names.get_raw(symbol.st_name as usize).is_ok_and(|found| found == name.as_bytes())
        };
        let found = symbols.iter().find(is_it);
        found.unwrap_or_else(|| panic!("the agent has no function {name}")).st_value as usize
    }

    fn entry(&self, tag: i64) -> usize {
        let table = self.file.dynamic().expect("the agent is whole").expect("the agent has a dynamic table");
        let found = table.iter().find(|entry| entry.d_tag == tag);
        found.unwrap_or_else(|| panic!("the agent has no table {tag:#x}")).d_val() as usize
    }
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
