//! Multipath TCP (RFC 8684): one stream of data over several subflows, each of which is a TCP connection.
//!
//! Data, windows and acknowledgements are counted in segments, as in [`crate::tcp`]. The segments of the stream, called
//! data segments, are numbered from 0. In addition, each subflow numbers the segments that it sends, and each packet
//! contains the number of the data segment that it carries (RFC 8684 §3.3: the mapping). A subflow sends its lost
//! segments again. If a subflow times out, another subflow also sends the segments that the first one has in flight. An
//! acknowledgement of a subflow also contains the number of the next data segment that the receiver expects.
//!
//! A driver uses the sender and the receiver of a connection in the same way as those of TCP
//! ([`SendingEnd`](crate::tcp::SendingEnd), [`ReceivingEnd`](crate::tcp::ReceivingEnd)). The driver arms one timer for
//! each subflow. When it polls the sender for a segment, it passes the set of subflows whose links have room.
//!
// Departure: all subflows are open when the connection is created. There is no MP_CAPABLE, no MP_JOIN and no
// announcement of addresses, because `crate::tcp` has no SYN either. The receiver's window is unlimited (in RFC 8684
// §3.3.5, the subflows share one window).

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
