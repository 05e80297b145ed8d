//! R2C2: a network stack for rack-scale computers (Costa et al., SIGCOMM 2015).
//!
//! Every node learns of all flows in the rack from broadcasts. Therefore a node can compute the fair rates of the flows that it sends
//! without probing the network.
//!
//! | module | holds |
//! |---|---|
//! | [`routing`] | the paths of a flow, and the route of a packet |
//! | [`weights`] | the exact share of a flow on each link |
//! | [`rates`] | the rates of all flows, by water-filling |
//! | [`shared_rates`] | one table of rates for all nodes of a process |
//! | [`terms`] | weights, priorities and demands of flows, by their end nodes |
//! | [`demand`] | the demand of a flow, as its sender sees it |
//! | [`bucket`] | the token bucket that limits a flow to its rate |
//! | [`view`] | a node's knowledge of all flows, and the resulting rates |
//! | [`map`] | routes, trees and weights without failed links |
//! | [`host`] | the bytes that a program has supplied to a flow |
//! | [`transfer`] | acknowledgement and retransmission of a flow |
//! | [`selection`] | the choice of each flow's routing |
//! | [`links`] | failed links, found by keep-alives |
//! | [`node`] | a node, which handles flows, packets, timers and failures |
//! | [`news`] | broadcasts, and reports of lost ones |
//! | [`trees`] | the links along which a broadcast travels |
//! | [`packet`] | packets on the wire |
//! | [`tunnel`] | packets in datagrams through a switched network |
//! | [`bridge`] | packets in Ethernet frames, and frames in packets |

pub mod bridge;
pub mod bucket;
pub mod demand;
pub mod host;
pub mod links;
pub mod map;
pub mod news;
pub mod node;
pub mod packet;
mod params;
pub mod rates;
pub mod routing;
pub mod selection;
pub mod shared_rates;
pub mod terms;
pub mod transfer;
pub mod trees;
pub mod tunnel;
pub mod view;
pub mod weights;

pub use params::{FirstRate, Params, RateControl};
pub use routing::Routing;
