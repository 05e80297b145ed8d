//! Shared memory of a rack, in which processes and hosts pass data by reference.
//!
//! `docs/decisions/0006-pool.md` says who owns which bytes, who may write them, and what a crash leaves.
//!
//! | module | idea |
//! |---|---|
//! | [`cache_control`] | how lines that others write are reached: coherent memory, incoherent, a model of it |

pub mod cache_control;
