//! Names of transfers, and the hashes by which they select paths.

use unrack_workload::MessageId;

/// Returns the name by which both ends of a transfer know it: twice the number of its message, plus one for an answer.
pub(in crate::fabric) fn transfer_name(message: MessageId, is_answer: bool) -> u32 {
    message.0.wrapping_mul(2) | u32::from(is_answer)
}

/// Returns the hash that selects one of several equal-cost paths for a transfer. It is the finalizer of MurmurHash3, so that transfers with
/// consecutive numbers take different paths.
pub(in crate::fabric) fn flow_hash(name: u32) -> u32 {
    let mut hash = name;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}
