//! Memory for the measurements of the calibration, in small pages or, if the kernel provides them, in huge pages.

use super::error::CalibrateError;
use memmap2::{Advice, MmapMut};

/// Size of a huge page, in bytes.
const HUGE_BYTES: usize = 2 << 20;

/// Page size of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageSize {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Huge,
}

/// Memory for a measurement. It begins at a multiple of the huge page size, and each of its pages has been written to.
pub(super) struct Memory {
    map: MmapMut,
    start: usize,
    bytes: usize,
}

impl Memory {
    /// Allocates memory and writes to each of its pages.
    pub(super) fn new(bytes: usize, pages: PageSize) -> Result<Memory, CalibrateError> {
        let refused = |source| CalibrateError::Memory { bytes, source };
        let map = MmapMut::map_anon(bytes + HUGE_BYTES).map_err(refused)?;
        // A kernel without huge pages rejects the advice. This is not an error, because `huge_bytes` then finds none.
        let _ = map.advise(if pages == PageSize::Huge { Advice::HugePage } else { Advice::NoHugePage });
        let start = (map.as_ptr() as usize).next_multiple_of(HUGE_BYTES) - map.as_ptr() as usize;
        let mut memory = Memory { map, start, bytes };
        memory.bytes_mut().chunks_mut(unrack_basis::PAGE).for_each(|page| page[0] = 1);
        Ok(memory)
    }

    /// Returns the memory as a slice for reading.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.map[self.start..self.start + self.bytes]
    }

    /// Returns the memory as a slice for writing.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.start..self.start + self.bytes]
    }

    /// Returns whether more than half of the memory is in huge pages, as reported by the kernel.
    pub(super) fn is_huge(&self) -> bool {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        huge_bytes(&smaps, self.bytes().as_ptr() as usize) > self.bytes / 2
    }
}

/// Returns how many bytes of the mapping at this address are in huge pages. `smaps` is the content of
/// `/proc/self/smaps`.
fn huge_bytes(smaps: &str, address: usize) -> usize {
    let holds = |line: &str| {
        let (first, last) = line.split(' ').next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some((number(first)?..number(last)?).contains(&address))
    };
    let inside = smaps.lines().skip_while(|line| holds(line) != Some(true)).skip(1);
    let mut own = inside.take_while(|line| holds(line).is_none());
    let kib =
        own.find_map(|line| line.strip_prefix("AnonHugePages:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or(0usize).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "1000-2000 r--p 00000000 fd:00 7 /bin/cat\nSize: 4 kB\nAnonHugePages:         0 kB\n\
                         400000-a00000 rw-p 00000000 00:00 0\nSize: 6144 kB\nAnonHugePages:      4096 kB\n";

    #[test]
    fn huge_pages_of_a_mapping_are_found() {
        assert_eq!(huge_bytes(SMAPS, 0x400000), 4 << 20);
        assert_eq!(huge_bytes(SMAPS, 0x1fff), 0);
        assert_eq!(huge_bytes(SMAPS, 0xa00000), 0);
    }

    #[test]
    fn small_pages_are_small() {
        let memory = Memory::new(4 << 20, PageSize::Small).unwrap();
        assert!(!memory.is_huge());
        assert_eq!((memory.bytes().len(), memory.bytes().as_ptr() as usize % HUGE_BYTES), (4 << 20, 0));
    }
}
