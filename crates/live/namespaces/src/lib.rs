//! Racks of network namespaces, for programs that are not simulated: a host is a namespace, and a NIC is a shaped link
//! between two namespaces.
//!
//! ```text
//! scenario --NamespacePlan::new--> NamespacePlan: which namespaces, which commands in each      (pure)
//!                                   | Rack::up                                                  (root)
//! program --Rack::enter--> runs on a host, its sockets MPTCP   --Rack::down--> nothing is left
//! ```
//!
//! On a `drack` every host has a virtual NIC at each NIC of its rack: a bridge in the namespace of the rack, whose
//! uplink is the NIC. Hosts announce the addresses of all their virtual NICs, so that the kernel opens an MPTCP subflow
//! to each of the peer's NICs, from the NIC at the same aggregation switch. On a `torack` a host has one NIC. Switches
//! are namespaces that route.
//!
//! Nothing outside these namespaces is touched: links are made from one into another, and vanish with them. Their
//! names are derived from the state folder, so that the remains of a crash are found.
#![forbid(unsafe_code)]

mod machine;
mod plan;
mod rack;
mod tools;

pub use machine::try_machine;
pub use plan::{NamespaceHost, NamespacePlan};
pub use rack::Rack;
