//! IRD: the idealized receiver-driven transport of EDM §4.3.
//!
//! It "notifies each receiver of new flows in zero time" and "combines the best features of existing protocols":
//! smallest remaining transfer first (Homa, pHost), and the credits of ExpressPass (Cho et al., SIGCOMM 2017), which
//! are limited where they meet. A receiver issues one credit per packet time, and so never more than its link takes. At
//! a sender, the credits of all receivers wait in one short queue of [`MOST_CREDITS`], which is served at the rate of the
//! sender's link, the smallest transfer first.
//!
//! Idealized: receivers have one [`GlobalView`]. They know at once what credits each sender has, and
//! give the next to the smallest transfer whose sender has room for it. So no credit is dropped, no time of a receiver
//! is reserved for a packet that does not come, and a sender is idle only if the links of all its receivers are booked.
//! What is left of decentralized scheduling (EDM §2.4): each receiver takes what is best for itself, so that the
//! credits form no matching, and the data of several senders may meet at a receiver's port. To bound that,
//! a receiver has no more credits outstanding than half of its port's buffer holds, or a round trip if that is more.
//!
//! Neither limit counts credits of larger transfers, to a power of two: they give way to smaller ones. If they counted,
//! a small transfer would wait until busy senders have used the credits of large ones. That smaller transfers exceed
//! a receiver's limit is what the other half of the buffer is for.
//!
//! Departure: ExpressPass has a credit queue at each switch port, drops credits beyond eight, and adapts the
//! rate of each flow's credits to the loss (§3.2). Receivers that always grant their best candidate, without that
//! feedback, keep choosing the same sender and lose their turns; the global view replaces the feedback.

mod bookings;
mod view;

pub use view::{Credits, GlobalView, Limits, Wish};

/// Maximum number of credits, from all receivers, that wait at one sender (ExpressPass §3.1: a queue of eight).
pub const MOST_CREDITS: u64 = 8;
