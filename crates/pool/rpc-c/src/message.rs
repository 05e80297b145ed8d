//! Copying bytes of messages, which a peer may write while they are read.

use crate::border;
use std::ffi::c_void;
use unrack_rpc::view::View;

/// Copies bytes of a message to private memory, and reads each byte only once. A plain copy does not guarantee this,
/// because a compiler may read the message again when the copy is used. Does nothing if a pointer is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_copy(to: *mut c_void, from: *const c_void, bytes: usize) {
    border::or((), || {
        if to.is_null() || from.is_null() {
            return None;
        }
        // SAFETY: each pointer is to this many bytes, as the header requires, and only the caller uses `to`.
        let (message, own) = unsafe {
            (View::new(from.cast(), bytes), std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes))
        };
        message.copy_to(own);
        Some(())
    });
}
