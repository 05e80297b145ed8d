//! Memory of this process that can be remote: `/proc/self/maps`, read without the C library.

use crate::pins;
use crate::reserved_region;
use crate::sys::decimal;
use alloc::vec::Vec;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Part of a mapping whose pages can be evicted: private, anonymous, writable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageableArea {
    pub start: usize,
    pub end: usize,
}

/// Reads the areas of this process, lowest address first. `text` is a buffer for reuse.
pub(crate) fn read_areas(
    maps: BorrowedFd,
    text: &mut Vec<u8>,
    areas: &mut Vec<PageableArea>,
) -> Result<(), Errno> {
    let len = read_all(maps, text)?;
    areas.clear();
    parse_areas(&text[..len], areas);
    areas.retain(|area| {
        !reserved_region::contains(area.start) && !(area.start..area.end).contains(&pins::own_data())
    });
    Ok(())
}

/// Reads the whole text of a file into `text` and returns its length.
pub(crate) fn read_all(file: BorrowedFd, text: &mut Vec<u8>) -> Result<usize, Errno> {
    rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0))?;
    text.resize(text.capacity().max(64 << 10), 0);
    let mut len = 0;
    loop {
        if len == text.len() {
            text.resize(2 * len, 0);
        }
        match rustix::io::read(file, &mut text[len..])? {
            0 => return Ok(len),
            read => len += read,
        }
    }
}

/// Extracts the areas from the text of `/proc/self/maps`.
fn parse_areas(text: &[u8], areas: &mut Vec<PageableArea>) {
    // Name and end of the latest mapping of a file before the current line. If the current mapping begins at that end, it is the .bss of
    // the file.
    let (mut file, mut file_end): (&[u8], usize) = (b"", 0);
    for mapping in text.split(|b| *b == b'\n').filter_map(Mapping::parse) {
        let is_bss = mapping.start == file_end && is_untouchable(file);
        if mapping.can_be_remote() && !is_bss {
            areas.push(PageableArea { start: mapping.start, end: mapping.end });
        }
        if mapping.inode != 0 {
            (file, file_end) = (mapping.name, mapping.end);
        }
    }
}

/// One line of `/proc/PID/maps`.
pub(crate) struct Mapping<'a> {
    pub(crate) start: usize,
    pub(crate) end: usize,
    permissions: &'a [u8],
    inode: u64,
    name: &'a [u8],
}

impl<'a> Mapping<'a> {
    pub(crate) fn parse(line: &'a [u8]) -> Option<Mapping<'a>> {
        let mut fields = line.split(|b| *b == b' ').filter(|field| !field.is_empty());
        let (range, permissions, _offset, _device, inode) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let dash = range.iter().position(|b| *b == b'-')?;
        Some(Mapping {
            start: hexadecimal(&range[..dash])?,
            end: hexadecimal(&range[dash + 1..])?,
            permissions,
            inode: decimal(inode)?,
            name: fields.next().unwrap_or_default(),
        })
    }

    /// Returns whether the pages of this mapping can be evicted.
    pub(crate) fn can_be_remote(&self) -> bool {
        let named = self.name.is_empty() || self.name == b"[heap]" || self.name.starts_with(b"[anon:");
        self.inode == 0 && self.permissions == b"rw-p" && named
    }

    /// Returns whether the mapping has no access rights.
    pub(crate) fn is_reserved(&self) -> bool {
        self.permissions.starts_with(b"---")
    }

    /// Returns whether the mapping has private pages that cannot be evicted. Such pages belong to a file that the program has changed, to a
    /// program's first stack, or to memory that is executable or currently not writable.
    pub(crate) fn keeps_its_own(&self) -> bool {
        self.permissions.ends_with(b"p") && !self.name.starts_with(b"[v") && !self.can_be_remote()
    }
}

/// Returns whether a path is that of a library whose data the pager may need at any time.
fn is_untouchable(path: &[u8]) -> bool {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    [&b"libc.so"[..], b"libc-", b"ld-linux", b"ld-2"].iter().any(|p| name.starts_with(p))
}

fn hexadecimal(text: &[u8]) -> Option<usize> {
    usize::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &[u8] = b"\
55d0c0a00000-55d0c0a01000 r--p 00000000 fe:00 11 /usr/bin/prog
55d0c0a01000-55d0c0a02000 rw-p 00001000 fe:00 11 /usr/bin/prog
55d0c0a02000-55d0c1000000 rw-p 00000000 00:00 0
55d0c1a00000-55d0c2000000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f0000021000-7f0004000000 ---p 00000000 00:00 0
7f1000000000-7f1000001000 r-xp 00000000 fe:00 12 /usr/lib/libc.so.6
7f1000001000-7f1000002000 rw-p 00001000 fe:00 12 /usr/lib/libc.so.6
7f1000002000-7f100000f000 rw-p 00000000 00:00 0
7f1000010000-7f1000020000 rw-s 00000000 00:05 99 /dev/zero (deleted)
7f1000020000-7f1000030000 rw-p 00000000 00:00 0 [anon:glibc: malloc]
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
";

    #[test]
    fn takes_anonymous_memory_but_not_the_c_librarys_own() {
        let mut areas = Vec::new();
        parse_areas(MAPS, &mut areas);
        let starts: Vec<_> = areas.iter().map(|area| area.start).collect();
        assert_eq!(starts, [0x55d0c0a02000, 0x55d0c1a00000, 0x7f0000000000, 0x7f1000020000]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            parse_areas(&text, &mut Vec::new());
        }
    }
}
