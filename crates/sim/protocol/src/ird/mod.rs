//! IRD: the idealized receiver-driven transport that EDM is compared with in EDM §4.3.
//!
//! IRD "notifies each receiver of new flows in zero time" and "combines the best features of existing protocols". As in
//! Homa and pHost, the transfer with the fewest segments left goes first. As in ExpressPass (Cho et al., SIGCOMM 2017),
//! a receiver issues credits, each of which allows a sender to send one packet, and the number of credits that wait at
//! one sender is limited. A receiver issues one credit per packet time, so that it never asks for more data than its
//! link can carry. At a sender, the credits from all receivers wait in one queue of at most [`MOST_CREDITS`]. The
//! sender uses them at the rate of its link, those of the smallest transfer first.
//!
//! IRD is idealized because all receivers share one [`GlobalView`]. Each receiver knows at once how many credits every
//! sender has, and gives its next credit to the smallest transfer whose sender has room for another credit. Therefore
//! no credit is dropped, and a receiver reserves no time on its link for a packet that does not arrive. A sender is
//! idle only if the links of all its receivers are booked. One property of decentralized scheduling (EDM §2.4) remains:
//! each receiver chooses the transfer that is best for itself. The credits of all receivers therefore form no matching
//! of senders and receivers, and the data of several senders may queue at the switch port of a receiver. To bound this
//! queue, a receiver limits the packets that it has requested and that have not arrived. The limit is half of the
//! buffer of its port or, if that is more, the packets of one round trip.
//!
//! A credit for a transfer is checked against two limits, that of its sender and that of its receiver. These checks
//! ignore the credits of larger transfers, in size classes of powers of two, because smaller transfers take precedence
//! over larger ones. If the checks included them, a small transfer would wait until busy senders have used the credits
//! of large transfers. The total of all outstanding packets may therefore exceed a receiver's limit; the other half of
//! the port's buffer has room for this excess.
//!
//! Departure: ExpressPass has a queue of at most eight credits at each switch port, which drops further credits, and
//! adapts the credit rate of each flow to the loss of its credits (§3.2). Without that feedback, a receiver that always
//! grants its best candidate would give credits to the same busy sender again and again, and these credits would be
//! dropped. Here the global view replaces the feedback.

mod bookings;
mod view;

pub use view::{CreditRequest, GlobalView, Limits, ReceiverCredits};

/// Maximum number of credits, from all receivers, that wait at one sender (ExpressPass §3.1: a queue of eight).
pub const MOST_CREDITS: u64 = 8;
