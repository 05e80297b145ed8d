//! What receiver-driven transports share: [`phost`](crate::phost), [`homa`](crate::homa) and
//! [`ird`](crate::ird).
//!
//! A transfer may send its first segments unasked; all others only when its receiver grants them, one
//! grant a segment. The sending side of a transfer is a [`Source`]; of the receiving side, [`Grants`]
//! knows what has arrived and what was granted. Which transfer is granted next is up to the [`Scheduler`]
//! of its node, and what tells the protocols apart.

mod grants;
mod source;

pub use grants::Grants;
pub use source::{Expiry, Send, Source};

use unrack_units::Time;

/// A transfer, by the number that both ends know it by.
pub type TransferId = u32;

/// Decides at one receiver who may send, and when.
pub trait Scheduler {
    /// True if only the turns of other transfers, or the pace of its grants, keep it from granting more of this one.
    fn could_grant(&self, grants: &Grants) -> bool;
    /// What a transfer stands at has changed: it was announced, a segment was granted or has arrived, or
    /// what was granted is lost.
    fn update(&mut self, transfer: TransferId, grants: &mut Grants);
    /// The transfer of which a segment may be granted now, and the rank that the segment is to have:
    /// 1 to 7, the lowest first. `outstanding` tells how many granted segments of a transfer have not
    /// arrived.
    fn poll(&self, now: Time, outstanding: impl Fn(TransferId) -> u32) -> Option<(TransferId, u8)>;
    /// What [`Scheduler::poll`] said was done. Its segment will take `pace` to arrive.
    fn granted(&mut self, now: Time, pace: Time);
    /// When [`Scheduler::poll`] may have something, if nothing else happens before.
    fn next(&self) -> Option<Time>;
}
