//! R2C2: a network stack for rack-scale computers (Costa et al., SIGCOMM 2015).
//!
//! Every node knows all flows of the rack, for it is told of each by a broadcast; so it computes its own fair
//! rates, without probing.
//!
//! | module | holds |
//! |---|---|
//! | [`routing`] | the ways of a flow, and the way of a packet |
//! | [`weights`] | what share of a flow crosses each link, exactly |
//! | [`rates`] | the rates of all flows, by water-filling |
//! | [`terms`] | what flows ask for, by the nodes between which they are |
//! | [`demand`] | what a flow can use, as its sender sees it |
//! | [`bucket`] | what holds a flow to its rate |
//! | [`view`] | what a node knows of all flows, and the rates that follow |
//! | [`map`] | ways, trees and weights of what is known to be there |
//! | [`host`] | what a program has given a flow to send |
//! | [`transfer`] | what of a flow is there, and what is sent again |
//! | [`selection`] | which routing each flow should use |
//! | [`links`] | which links are down, found out by silence |
//! | [`news`] | what is broadcast, and reports of what was lost of it |
//! | [`trees`] | along which links a broadcast goes |
//! | [`packet`] | what is on the wire |
//! | [`tunnel`] | the same through a switched network |
//! | [`bridge`] | to one: packets in Ethernet frames, and frames in packets |

pub mod bridge;
pub mod bucket;
pub mod demand;
pub mod host;
pub mod links;
pub mod map;
pub mod news;
pub mod packet;
mod params;
pub mod rates;
pub mod routing;
pub mod selection;
pub mod terms;
pub mod transfer;
pub mod trees;
pub mod tunnel;
pub mod view;
pub mod weights;

pub use params::{Control, FirstRate, Params};
pub use routing::Routing;
