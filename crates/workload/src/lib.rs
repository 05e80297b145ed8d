//! What a rack is asked to do: messages, sizes, arrivals, captured traces.
//!
//! | module | answers |
//! |---|---|
//! | [`blades`] | which node does what: racks, and the blades in them |
//! | [`message`] | what is carried: reads, writes, read-modify-writes, flows |
//! | [`source`] | the contract between whoever asks and whoever carries |
//! | [`size`] | how large: one size, or a published or given distribution |
//! | [`synthetic`] | open loop: arrivals at a load, between nodes of a pattern |
//! | [`forecast`] | what an open-loop source will submit |
//! | [`collective`] | all-reduce and its like, as steps |
//! | [`jobs`] | closed loop: work whose messages wait for each other and for what is computed |
//! | [`listed`] | open loop: messages at given times |
//! | [`ycsb`] | YCSB: which operations, of which records |
//! | [`trace`] | a captured program, replicated and replayed, closed loop |
//!
//! No protocol is known here, and no file format.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::iter_over_hash_type)]

pub mod blades;
pub mod collective;
pub mod error;
pub mod forecast;
pub mod jobs;
pub mod listed;
pub mod message;
pub mod random;
pub mod size;
pub mod source;
pub mod synthetic;
pub mod trace;
pub mod ycsb;

pub use blades::{Blades, Organization, Racks, Scope};
pub use collective::CollectiveSpec;
pub use error::WorkloadError;
pub use forecast::forecast;
pub use jobs::{Job, Jobs, JobsSpec};
pub use listed::Listed;
pub use message::{Kind, Message, MessageId, NodeId};
pub use size::{Cdf, Pareto, Scale, Size};
pub use source::{Computing, Loads, Outbox, Source};
pub use synthetic::{Arrivals, Disk, Memory, Pattern, Synthetic, SyntheticSpec, Traffic};
pub use trace::{CapturedTrace, Replay, ReplaySpec};
