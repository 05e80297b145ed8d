//! Contents of records.

use std::fmt::Write;
use unrack_basis::SplitMix64;

/// Number of fields of a record (`fieldcount`).
pub(super) const FIELDS: usize = 10;
/// Bytes of a field (`fieldlength`).
pub(super) const FIELD_BYTES: usize = 100;

/// Returns the name of a field.
pub(super) fn name(field: usize) -> String {
    format!("field{field}")
}

/// Fills a field with letters and digits that depend only on `seed`.
pub(super) fn fill(field: &mut String, seed: u64) {
    let mut random = SplitMix64::new(seed);
    field.clear();
    while field.len() < FIELD_BYTES {
        let _ = write!(field, "{:016x}", random.next_u64());
    }
    field.truncate(FIELD_BYTES);
}
