//! Common parts of the receiver-driven transports [`phost`](crate::phost), [`homa`](crate::homa) and
//! [`ird`](crate::ird).
//!
//! A transfer may send its first segments without a grant ("unasked"). All others it may send only when its receiver
//! grants them, one grant per segment. [`GrantedSender`] is the sending side of a transfer. On the receiving side,
//! [`Grants`] records which segments have arrived and which were granted, and the node's [`Scheduler`] decides which
//! transfer is granted next. The protocols differ in their schedulers.

mod grants;
mod source;

pub use grants::Grants;
pub use source::{Expiry, GrantedSender, Send};

use unrack_units::Time;

/// Number of a transfer, known to both ends.
pub type TransferId = u32;

/// Decides, at one receiver, which transfer may send and when.
pub trait Scheduler {
    /// Returns whether the scheduler would grant more of this transfer if it did not have to wait for the turns of
    /// other transfers or for the pace of its grants.
    fn could_grant(&self, grants: &Grants) -> bool;
    /// Records that a segment was granted, which will take `pace` to arrive.
    fn granted(&mut self, now: Time, pace: Time);
    /// Returns when the next grant may be due, if no other event happens before.
    fn next(&self) -> Option<Time>;
}

/// Scheduler that uses only what its own receiver knows.
pub trait LocalScheduler: Scheduler {
    /// Records that the state of a transfer has changed: the transfer was announced, a segment was granted or has
    /// arrived, or granted segments are lost.
    fn update(&mut self, transfer: TransferId, grants: &mut Grants);
    /// Returns the transfer of which a segment may be granted now, and the rank of that segment: 1 to 7, where 1 goes
    /// first. `outstanding` returns how many granted segments of a transfer have not arrived.
    fn poll(&self, now: Time, outstanding: impl Fn(TransferId) -> u32) -> Option<(TransferId, u8)>;
}
