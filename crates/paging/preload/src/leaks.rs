//! Search for LeakSanitizer, which may be used alone or in AddressSanitizer, as a library or as a part of the program.

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;

/// Name to which every build of LeakSanitizer refers.
const NAME: &[u8] = b"__lsan_is_turned_off";
const STRINGS: i64 = 5;
const STRINGS_LEN: i64 = 10;

/// Returns whether the program, or a library that was loaded with it, contains LeakSanitizer.
pub(crate) fn are_looked_for() -> bool {
    // SAFETY: `visit` has the required type, and needs no data.
    unsafe { libc::dl_iterate_phdr(Some(visit), std::ptr::null_mut()) == 1 }
}

/// Checks one loaded object. Returns 1, which stops the iteration, if the object contains the name.
unsafe extern "C" fn visit(object: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid object, all of which is mapped.
    let object = unsafe { &*object };
    // SAFETY: the loader counted the headers, and keeps them as long as the object.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum as usize) };
    let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC);
    let Some(dynamic) = dynamic.map(|header| object.dlpi_addr + header.p_vaddr) else { return 0 };
    // SAFETY: the loader has read the same entries.
    let Some(strings) = (unsafe { strings(dynamic as *const [i64; 2], object.dlpi_addr as i64) }) else {
        return 0;
    };
    strings.windows(NAME.len()).any(|part| part == NAME) as c_int
}

/// Returns the string table to which an object's dynamic section refers.
///
/// # Safety
/// The section is mapped, and ends with a null entry.
unsafe fn strings<'a>(section: *const [i64; 2], base: i64) -> Option<&'a [u8]> {
    let (mut at, mut len) = (0, 0);
    // SAFETY: the caller guarantees that the section ends with a null entry.
    let _ = (0..).map(|n| unsafe { *section.add(n) }).try_for_each(|[tag, value]| {
        match tag {
            0 => return ControlFlow::Break(()),
            STRINGS => at = value,
            STRINGS_LEN => len = value,
            _ => {}
        }
        ControlFlow::Continue(())
    });
    // The object that the kernel provides has addresses that the loader did not relocate.
    let at = if at < base { at + base } else { at };
    // SAFETY: the caller guarantees a valid section, whose entries describe the table.
    (at != 0).then(|| unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) })
}
