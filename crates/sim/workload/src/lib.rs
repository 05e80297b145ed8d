//! Workloads of a rack: messages with their sizes and arrival times, and traces of captured programs. This crate does
//! not depend on network protocols or file formats.
//!
//! [`source`] defines the interface that every workload implements. [`synthetic`] is the simplest workload.
//!
//! | module | contents |
//! |---|---|
//! | [`message`] | kinds of messages: reads, writes, read-modify-writes and flows |
//! | [`source`] | the interface between a source of messages and their carrier, such as a simulated network |
//! | [`blades`] | racks, and the roles of nodes in them |
//! | [`size`] | distributions of message sizes: one fixed size, or a published or given distribution |
//! | [`synthetic`] | open loop: messages that arrive at a given load, between the nodes of a traffic pattern |
//! | [`lines`] | closed loop: cache lines that the misses of a program request, replayed on many nodes |
//! | [`listed`] | open loop: a list of messages with their times |
//! | [`mod@forecast`] | the messages that an open-loop source will submit |
//! | [`collective`] | all-reduce and similar operations, in steps |
//! | [`jobs`] | closed loop: work whose messages depend on each other and on computation |
//! | [`trace`] | closed loop: transfers of pages by a captured program, replayed on many nodes |
//! | [`ycsb`] | YCSB: operations, and the records that they access |
//!
//! The types for words in scenarios (patterns, arrivals, blades, operations) are defined in `unrack-rack`. This crate
//! implements their effects.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::iter_over_hash_type)]

pub mod blades;
pub mod collective;
pub mod error;
pub mod forecast;
pub mod jobs;
pub mod lines;
pub mod listed;
pub mod message;
pub mod random;
pub mod size;
pub mod source;
pub mod synthetic;
pub mod trace;
pub mod ycsb;

pub use blades::{BladeNodes, BladeRacks};
pub use error::WorkloadError;
pub use forecast::forecast;
pub use jobs::{ComputedJob, JobsSpec, RunningJobs};
pub use lines::{LineReplay, LineTrace};
pub use listed::ListedMessages;
pub use message::{Endpoints, Kind, Message, MessageId, NodeId};
pub use size::{Pareto, SizeCdf, SizeDistribution};
pub use source::{Computing, Outbox, Source, TaskLoads};
pub use synthetic::{DiskShare, MemoryMix, Synthetic, SyntheticSpec, Traffic};
pub use trace::{CapturedReplay, CapturedTrace, ReplaySpec};
// Types for words in scenarios that are used in the parameters of this crate.
pub use unrack_rack::{
    Arrivals, Blades, Collective, Operation, Organization, ParetoScale, Pattern, Replay, Scope, TimeOffsets,
};
