//! Text formats in which people read and write blocks, frames and messages.
//!
//! | module | |
//! |---|---|
//! | [`listing`] | a line for each block, in both directions |
//! | [`picture`] | rows of blocks as a picture |
//! | [`script`] | a line for each frame, message or request |

pub mod listing;
pub mod picture;
pub mod script;

/// Returns two hex digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
