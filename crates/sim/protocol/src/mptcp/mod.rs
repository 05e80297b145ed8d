//! Multipath TCP (RFC 8684): one stream of data over several subflows, each a TCP of its own.
//!
//! The unit is the segment, as in [`crate::tcp`]. Data segments are numbered from 0; a subflow numbers its own
//! segments, and each of its packets says which data segment it carries (RFC 8684 §3.3: the mapping). A lost segment is
//! sent again by its subflow; the segments that a timed-out subflow has in flight are also sent by another.
//! Acknowledgements of subflows also say up to where data has arrived.
//!
//! A driver uses both ends as it uses TCP's ([`SendingEnd`](crate::tcp::SendingEnd),
//! [`ReceivingEnd`](crate::tcp::ReceivingEnd)), arms a timer for each subflow, and says which subflows have room on
//! their link when it polls for a segment.
//!
// Departure: subflows are open when the connection is created: no MP_CAPABLE, no MP_JOIN, no addresses announced, as
// there is no SYN in `crate::tcp`. The receiver's window is unlimited (RFC 8684 §3.3.5 shares one among subflows).

mod coupled;
#[cfg(test)]
mod pair;
mod params;
mod receiver;
mod sender;
mod subflows;

pub use coupled::Coupled;
pub use params::{Coupling, Params, Scheduler};
pub use receiver::Receiver;
pub use sender::{Dss, Resting, Sender};
pub use subflows::Subflows;
