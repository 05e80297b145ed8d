//! Racks of network namespaces, for programs that are not simulated. A host is a namespace, and a NIC is a shaped link between two
//! namespaces.
//!
//! ```text
//! scenario --NamespacePlan::new--> NamespacePlan: which namespaces, which commands in each      (pure)
//!                                   | Rack::up                                                  (root)
//! program --Rack::enter--> runs on a host, its sockets MPTCP   --Rack::down--> nothing is left
//! ```
//!
//! On a `drack`, every host has one virtual NIC for each NIC of its rack. Such a NIC of the rack is the uplink of a bridge in the namespace
//! of the rack, and the hosts' virtual NICs are connected to this bridge. Hosts announce the addresses of all their virtual NICs. Therefore
//! the kernel opens an MPTCP subflow to each of the peer's NICs, from the NIC at the same aggregation switch. On a `torack`, a host has one
//! NIC. Switches are namespaces that route.
//!
//! The rack changes nothing outside these namespaces, because links are created directly between them and disappear with them. The names of
//! the namespaces are derived from the state folder, so that the remains of a crash can be found.
#![forbid(unsafe_code)]

mod machine;
mod plan;
mod rack;
mod tools;

pub use machine::try_machine;
pub use plan::{NamespaceHost, NamespacePlan};
pub use rack::Rack;
