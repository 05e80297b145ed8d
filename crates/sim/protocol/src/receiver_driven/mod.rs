//! Common parts of the receiver-driven transports [`phost`](crate::phost), [`homa`](crate::homa) and
//! [`ird`](crate::ird).
//!
//! The sender of a transfer may send the first segments without a grant ("unasked"). It may send every other segment only when the receiver
//! grants it, with one grant per segment. [`GrantedSender`] is the sending side of a transfer. On the receiving side, [`Grants`] records
//! which segments have arrived and which were granted, and the node's [`Scheduler`] decides which transfer is granted next. The protocols
//! differ in their schedulers.

mod grants;
mod source;

pub use grants::Grants;
pub use source::{Expiry, GrantedSender, Send};

use unrack_units::Time;

/// Number of a transfer, which its sender and its receiver use alike.
pub type TransferId = u32;

/// Scheduler of a receiver: it decides which transfer gets the next grant, and when.
pub trait Scheduler {
    /// Returns whether the scheduler could grant more segments of this transfer, apart from the precedence of other transfers and the
    /// pacing of grants.
    fn could_grant(&self, grants: &Grants) -> bool;
    /// Records that the receiver granted a segment at time `now`. The segment will take the time `pace` on the receiver's link.
    fn granted(&mut self, now: Time, pace: Time);
    /// Returns when the next grant may be due, unless another event happens before.
    fn next(&self) -> Option<Time>;
}

/// Scheduler that uses only the state of its receiver, and no information from other nodes.
pub trait LocalScheduler: Scheduler {
    /// Updates the scheduler after a change in the state of a transfer: the transfer was announced, a segment was granted or has arrived,
    /// or granted segments count as lost.
    fn update(&mut self, transfer: TransferId, grants: &mut Grants);
    /// Returns the transfer that may get a grant now, and the rank of the granted segment. Ranks are 1 to 7, and segments of rank 1 precede
    /// others. `outstanding` returns the number of granted segments of a transfer that have not arrived.
    fn poll(&self, now: Time, outstanding: impl Fn(TransferId) -> u32) -> Option<(TransferId, u8)>;
}
