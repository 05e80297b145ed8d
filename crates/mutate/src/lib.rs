//! Damaged inputs for every parser and wire of Unrack, by the million.
//!
//! | module | holds |
//! |---|---|
//! | [`targets`] | readers of inputs: one plain function for each parser and wire, for this tool and for `fuzz/` |
//! | [`corpus`] | good inputs: the examples, the studies, tables and messages that are made here |
//! | [`mutation`] | damage to inputs: by TOML's grammar, by words and lines, by bytes |
//! | [`campaign`] | seeded executions, and records of failures |
//!
//! A target fails if it panics, takes too long, or explains itself in a line that no terminal shows. Input number `n`
//! of a seed does not depend on earlier ones, so that a failure is reproduced by its target, seed and number.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod corpus;
mod draws;
pub mod mutation;
pub mod targets;
