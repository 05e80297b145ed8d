//! Calls by reference over shared memory (HydraRPC, USENIX ATC 2024).

pub mod ends;
pub mod queue;
