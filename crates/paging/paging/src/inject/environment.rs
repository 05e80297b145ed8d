//! Environment of a program that is about to start: whether its loader would preload Unrack's library, and how to prevent that.

use crate::trace::raw;
use rustix::io::Errno;

/// Part of the path of Unrack's library. It also occurs in the path of the link under which `measure` preloads the library if the real path
/// contains separators.
const LIBRARY: &[u8] = b"libunrack_preload";
const VARIABLE: &[u8] = b"LD_PRELOAD=";
const WORD: usize = size_of::<usize>();

/// Returns whether the environment of a process names Unrack's library.
pub(super) fn preloads(process: u32) -> bool {
    variables(process).iter().any(|text| names_library(text))
}

fn variables(process: u32) -> Vec<Vec<u8>> {
    let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    environment.split(|b| *b == 0).filter(|text| !text.is_empty()).map(<[u8]>::to_vec).collect()
}

fn names_library(text: &[u8]) -> bool {
    text.strip_prefix(VARIABLE).is_some_and(|value| value.windows(LIBRARY.len()).any(|part| part == LIBRARY))
}

/// Removes Unrack's library, which is first in `LD_PRELOAD`, from the environment of a program whose loader cannot load it. The program's
/// stack must be as the kernel made it. Other libraries in `LD_PRELOAD` stay.
///
/// # Errors
/// `EFAULT` if the stack is not as the kernel makes it, so that its memory cannot be accessed.
pub(super) fn hide_library(process: u32, stack: usize) -> Result<(), Errno> {
    let mut count = [0u8; WORD];
    raw::read_memory(process, stack, &mut count)?;
    let arguments = usize::from_ne_bytes(count);
    let pointer = |n: usize| stack + (1 + arguments + 1 + n) * WORD;
    let texts = variables(process);
    let Some(ours) = texts.iter().position(|text| names_library(text)) else { return Ok(()) };
    let mut address = [0u8; WORD];
    raw::read_memory(process, pointer(ours), &mut address)?;
    let others = texts[ours].iter().position(|b| *b == b':').map(|colon| colon + 1);
    let replaced = match others {
        // Writes the name of the variable again, directly before the other libraries.
        Some(at) => {
            let begin = usize::from_ne_bytes(address) + at - VARIABLE.len();
            raw::write_memory(process, begin, VARIABLE)?;
            begin.to_ne_bytes()
        }
        // Replaces the variable by a duplicate of another one, which programs read as a single variable.
        None => {
            let other = if ours == 0 { texts.len() - 1 } else { 0 };
            raw::read_memory(process, pointer(other), &mut address)?;
            address
        }
    };
    raw::write_memory(process, pointer(ours), &replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_library_is_known_by_its_name() {
        assert!(names_library(b"LD_PRELOAD=/usr/lib/unrack/libunrack_preload.so"));
        assert!(names_library(b"LD_PRELOAD=/dev/shm/x/libunrack_preload.so:/lib/libjemalloc.so.2"));
        assert!(!names_library(b"LD_PRELOAD=/lib/libjemalloc.so.2"));
        assert!(!names_library(b"X=LD_PRELOAD=/libunrack_preload.so"));
    }
}
