//! Access to the memory of the guest program. The recorder reads this memory through the kernel, because a pointer of
//! the program may be invalid, and a direct read through it would end the process.
//!
//! Guest addresses are equal to addresses of this process, which [`is_identical`](Memory::is_identical) checks.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Maximum length of a string that is read from the guest, in bytes: the kernel's limit for one argument
/// (`MAX_ARG_STRLEN`).
const LONGEST: usize = 32 * 4096;
/// Maximum number of strings in a list that is read from the guest.
const MOST: usize = 1 << 20;

/// Memory of this process, which contains the memory of the guest, opened as a file.
pub(crate) struct Memory(File);

impl Memory {
    /// Opens the memory of this process. Returns `None` if the kernel does not allow it.
    pub(crate) fn open() -> Option<Memory> {
        File::open("/proc/self/mem").ok().map(Memory)
    }

    /// Returns whether the memory at this address contains exactly `bytes`.
    pub(crate) fn is_identical(&self, address: u64, bytes: &[u8]) -> bool {
        let mut found = vec![0; bytes.len()];
        self.0.read_exact_at(&mut found, address).is_ok() && found == bytes
    }

    /// Reads a string that ends in NUL. Returns `None` if the memory cannot be read or the string is too long.
    pub(crate) fn string(&self, address: u64) -> Option<CString> {
        let mut bytes = Vec::new();
        let mut chunk = [0; 256];
        while bytes.len() < LONGEST {
            // A read must not cross a page boundary, because a string may end just before an unmapped page.
            let to_page = 4096 - (address as usize + bytes.len()) % 4096;
            let chunk = &mut chunk[..to_page.min(256)];
            self.0.read_exact_at(chunk, address.checked_add(bytes.len() as u64)?).ok()?;
            match chunk.iter().position(|&byte| byte == 0) {
                Some(end) => {
                    bytes.extend_from_slice(&chunk[..end]);
                    return CString::new(bytes).ok();
                }
                None => bytes.extend_from_slice(chunk),
            }
        }
        None
    }

    /// Reads a list of pointers to strings that ends in a null pointer, as in the arguments of `execve`. A null pointer
    /// in place of the list denotes an empty list.
    pub(crate) fn strings(&self, address: u64) -> Option<Vec<CString>> {
        let mut strings = Vec::new();
        if address == 0 {
            return Some(strings);
        }
        while strings.len() < MOST {
            let mut pointer = [0; 8];
            self.0.read_exact_at(&mut pointer, address.checked_add(strings.len() as u64 * 8)?).ok()?;
            match u64::from_le_bytes(pointer) {
                0 => return Some(strings),
                pointer => strings.push(self.string(pointer)?),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_back() {
        let words = ["", "one", &"x".repeat(5000)].map(|word| CString::new(word).unwrap());
        let mut list = words.each_ref().map(|word| word.as_ptr() as u64).to_vec();
        list.push(0);
        let memory = Memory::open().unwrap();
        assert_eq!(memory.strings(list.as_ptr() as u64).unwrap(), words);
        assert_eq!(memory.strings(0).unwrap(), Vec::<CString>::new());
    }

    #[test]
    fn wrong_pointers_are_no_strings() {
        let memory = Memory::open().unwrap();
        let list = [8u64, 0];
        assert!(memory.string(8).is_none());
        assert!(memory.string(u64::MAX - 3).is_none());
        assert!(memory.strings(list.as_ptr() as u64).is_none());
        assert!(!memory.is_identical(8, b"x"));
    }
}
