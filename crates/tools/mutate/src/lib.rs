//! Damaged inputs for every parser and wire format of Unrack, by the million.
//!
//! | module | holds |
//! |---|---|
//! | [`targets`] | readers of inputs: one plain function for each parser and wire format, also called by `tests/fuzz` |
//! | [`corpus`] | valid inputs: the examples, the studies, and tables and messages that are made here |
//! | [`mutation`] | damage to inputs: by TOML's grammar, by words and lines, by bytes |
//! | [`campaign`] | seeded executions, and records of failures |
//!
//! A target fails if it panics, takes too long, or returns an error text that a terminal cannot show. Input number `n`
//! of a seed does not depend on earlier ones, so target, seed and number reproduce a failure.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod corpus;
mod draws;
pub mod mutation;
pub mod targets;
