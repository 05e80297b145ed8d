//! Racks that run in real time on one machine: switched racks for real programs, and direct topologies for R2C2
//! ([`direct`]).
//!
//! In a switched rack a host is a network namespace, and a NIC is a shaped link between two namespaces.
//!
//! ```text
//! scenario --Plan::new--> Plan: which namespaces, which commands in each      (pure)
//!                          | Rack::up                                          (root)
//! program --Rack::enter--> runs on a host, its sockets MPTCP   --Rack::down--> nothing is left
//! ```
//!
//! On a `drack` every host has a virtual NIC at each NIC of its rack: a bridge in the namespace of the rack, whose
//! uplink is the NIC. Hosts announce the addresses of all their virtual NICs, so the kernel opens an MPTCP subflow to
//! each of the peer's NICs, from the NIC at the same aggregation switch. On a `torack` a host has one NIC. Switches are
//! namespaces that route.
//!
//! Nothing outside these namespaces is touched: links are created directly between them, and vanish with them. Their
//! names are derived from the state folder, so `down` finds the remains of a crash.
// One request to the kernel has no safe interface: `direct/tap.rs`.
#![deny(unsafe_code)]

pub mod direct;
mod error;
mod folder;
mod machine;
mod plan;
mod rack;
mod tools;

pub use error::Error;
pub use plan::{Host, Plan};
pub use rack::Rack;
