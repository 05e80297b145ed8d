//! Description of a rack: the scenario file, its errors, and the topologies that it names.
//!
//! ```text
//! file --load--> Scenario --check--> ValidScenario { seed, network, protocol, host, workload, faults }
//!  + extends                              | fabric_params::<P>()  the protocol's own parameters
//!  + --set                                | explain(), hash()     every value, and its origin
//! ```
//!
//! Values are plain data: `unrack-workload` creates messages from them, and `unrack-sim` packets. All problems of a
//! file are reported at once, each with its line, a caret and the nearest valid key. This crate does not panic on any
//! input text.
//!
//! ```
//! use unrack_rack::{KnownNames, Overrides, Profile, Protocol, Scenario};
//!
//! const EDM: Profile = Profile { name: "edm", ..Profile::SWITCHED };
//! let known = KnownNames { protocols: vec![Protocol::new(&EDM)], ..KnownNames::default() };
//! let text = r#"
//! [network]
//! topology = { kind = "star", nodes = 16 }
//! link = { ratee = "100Gbps" }
//! [fabric]
//! protocol = "edm"
//! [workload]
//! kind = "memory"
//! load = 0.8
//! messages = 1000
//! "#;
//! let error = Scenario::parse("rack.toml", text, &Overrides::none()).unwrap().check(&known).unwrap_err();
//! assert_eq!(error.to_string(), r#"
//! error: network.link has no key `ratee`; did you mean `rate`?
//!  --> rack.toml:4:10
//!   |
//! 4 | link = { ratee = "100Gbps" }
//!   |          ^^^^^"#.trim_start());
//! ```
#![forbid(unsafe_code)]

mod as_text;
mod check;
mod decode;
mod explain;
mod fabric;
mod faults;
pub mod graph;
mod host;
mod kinds;
mod link;
mod load;
mod network;
mod overrides;
mod problem;
mod read;
mod scenario;
mod scenario_schema;
mod schema;
mod source;
mod tables;
mod topology;
mod tree;
mod wiring;
mod workload;

pub use check::bounds::LARGEST_MESSAGE;
pub use fabric::{KnownNames, Networks, Profile, Protocol, listed};
pub use faults::{BitErrors, Faults, Outage, ScheduledFailure};
pub use host::{Cpu, HostMemory, HostSpec, Nic, PoolCache};
pub use kinds::{Connects, TopologyKind};
pub use link::LinkSpec;
pub use load::MOST_BYTES;
pub use network::{BufferSize, Headers, NetworkSpec, SwitchSpec};
pub use overrides::Overrides;
pub use problem::ScenarioError;
pub use scenario::{Scenario, ValidScenario};
pub use scenario_schema::{params_schema, scenario_schema};
pub use topology::{Cabling, ExternalTopology, RefusedTopology, Switches, TopologySpec};
pub use wiring::Wiring;
pub use workload::{
    Arrivals, BUILT_IN_CDFS, Blades, Collective, Disk, FileRef, FlowWorkload, Jobs, Margin, Memory,
    Operation, Organization, ParetoScale, Pattern, Replay, Scope, Size, SizeUnit, TimeOffsets, Trace,
    Workload, jobs,
};
