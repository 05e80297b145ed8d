//! Common parts of the receiver-driven transports [`phost`](crate::phost), [`homa`](crate::homa) and
//! [`ird`](crate::ird).
//!
//! A transfer may send its first segments without a grant ("unasked"); all others only when its receiver grants them,
//! one grant per segment. The sending side of a transfer is a [`GrantedSender`]; on the receiving side, [`Grants`] records
//! what has arrived and what was granted. The [`Scheduler`] of a node decides which transfer is granted next; it is
//! what differs between the protocols.

mod grants;
mod source;

pub use grants::Grants;
pub use source::{Expiry, GrantedSender, Send};

use unrack_units::Time;

/// Number of a transfer, known to both ends.
pub type TransferId = u32;

/// Decides at one receiver which transfer may send, and when.
pub trait Scheduler {
    /// Returns whether only the turns of other transfers, or the pace of its grants, keep it from granting more of this
    /// one.
    fn could_grant(&self, grants: &Grants) -> bool;
    /// Notes that a segment was granted, which will take `pace` to arrive.
    fn granted(&mut self, now: Time, pace: Time);
    /// Returns when the next grant may be due, if nothing else happens before.
    fn next(&self) -> Option<Time>;
}

/// Scheduler that knows no more than its own receiver does.
pub trait LocalScheduler: Scheduler {
    /// Notes that a transfer's state has changed: it was announced, a segment was granted or has arrived, or granted
    /// segments are lost.
    fn update(&mut self, transfer: TransferId, grants: &mut Grants);
    /// Returns the transfer of which a segment may be granted now, and the rank of that segment: 1 to 7, the lowest
    /// first. `outstanding` returns how many granted segments of a transfer have not arrived.
    fn poll(&self, now: Time, outstanding: impl Fn(TransferId) -> u32) -> Option<(TransferId, u8)>;
}
