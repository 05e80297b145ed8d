//! Workloads of a rack: messages, their sizes and arrivals, and captured traces. This crate knows no protocols and no
//! file formats.
//!
//! [`source`] is the interface that every workload implements; [`synthetic`] is the simplest workload.
//!
//! | module | holds |
//! |---|---|
//! | [`message`] | messages: reads, writes, read-modify-writes, flows |
//! | [`source`] | the interface between a source of messages and their carrier |
//! | [`blades`] | racks, and the roles of nodes in them |
//! | [`size`] | message sizes: one size, or a published or given distribution |
//! | [`synthetic`] | open loop: arrivals at a load, between nodes of a pattern |
//! | [`lines`] | closed loop: lines that a program's misses request, replicated and replayed |
//! | [`listed`] | open loop: messages at given times |
//! | [`mod@forecast`] | the messages that an open-loop source will submit |
//! | [`collective`] | all-reduce and similar operations, in steps |
//! | [`jobs`] | closed loop: work whose messages depend on each other and on computation |
//! | [`trace`] | closed loop: a captured program, replicated and replayed |
//! | [`ycsb`] | YCSB: operations, and their records |
//!
//! The words of scenarios (patterns, arrivals, blades, operations) are types of `unrack-rack`; this crate implements
//! their effects.
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
// Words of scenarios that occur in the parameters of this crate.
pub use unrack_rack::{
    Arrivals, Blades, Collective, Operation, Organization, ParetoScale, Pattern, Replay, Scope, TimeOffsets,
};
