//! Multipath TCP (RFC 8684): one stream of data over several subflows, each of which is a TCP connection.
//!
//! The unit is the segment, as in [`crate::tcp`]. Data segments are numbered from 0. A subflow has its own numbers for
//! its segments, and each of its packets names the data segment that it carries (RFC 8684 §3.3: the mapping). A
//! subflow sends its lost segments again; if a subflow times out, another subflow also sends the segments that it has
//! in flight. Acknowledgements of subflows also name the data segment up to which all data has arrived.
//!
//! A driver uses the two ends as it uses TCP's ([`SendingEnd`](crate::tcp::SendingEnd),
//! [`ReceivingEnd`](crate::tcp::ReceivingEnd)). It arms a timer for each subflow, and when it polls for a segment, it
//! passes the set of subflows whose links have room.
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
