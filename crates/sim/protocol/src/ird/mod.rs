//! IRD: the idealized receiver-driven transport of EDM §4.3.
//!
//! It "notifies each receiver of new flows in zero time" and "combines the best features of existing protocols": the
//! transfer with the least left goes first (Homa, pHost), and credits as in ExpressPass (Cho et al., SIGCOMM 2017) are
//! limited where they meet. A receiver issues one credit per packet time, and so never asks for more than its link can
//! take. At a sender, the credits of all receivers wait in one short queue of [`MOST_CREDITS`], which is served at the
//! rate of the sender's link, the smallest transfer first.
//!
//! It is idealized because all receivers share one [`GlobalView`]. Each of them knows at once which credits every
//! sender has, and gives its next credit to the smallest transfer whose sender has room for it. Therefore no credit is
//! dropped, no time of a receiver is reserved for a packet that does not come, and a sender is idle only if the links
//! of all its receivers are booked. One property of decentralized scheduling (EDM §2.4) remains: each receiver chooses
//! what is best for itself, so that the credits form no matching, and the data of several senders may meet at a
//! receiver's port. To bound that data, a receiver has no more credits outstanding than half of its port's buffer can
//! hold, or than a round trip takes if that is more.
//!
//! Neither limit counts the credits of larger transfers (by powers of two), because those give way to smaller ones. If
//! the limits counted them, a small transfer would wait until busy senders have used the credits of large transfers.
//! Smaller transfers may therefore exceed a receiver's limit; the other half of the buffer is there for them.
//!
//! Departure: ExpressPass has a credit queue at each switch port, drops credits beyond eight, and adapts the rate of
//! each flow's credits to their loss (§3.2). Without that feedback, receivers that always grant their best candidate
//! would choose the same sender again and again, and lose their turns. Here the global view replaces the feedback.

mod bookings;
mod view;

pub use view::{CreditRequest, GlobalView, Limits, ReceiverCredits};

/// Maximum number of credits, from all receivers, that wait at one sender (ExpressPass §3.1: a queue of eight).
pub const MOST_CREDITS: u64 = 8;
