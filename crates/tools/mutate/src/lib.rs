//! Feeds millions of damaged inputs to every parser and wire format of Unrack.
//!
//! | module | contents |
//! |---|---|
//! | [`targets`] | readers of inputs: one plain function for each parser and wire format, which `tests/fuzz` calls too |
//! | [`corpus`] | valid inputs: the examples, the studies, and generated tables and messages |
//! | [`mutation`] | damage to inputs: by the grammar of TOML, by words and lines, by bytes |
//! | [`campaign`] | seeded executions, and records of failures |
//!
//! A target fails if it panics, takes too long, or returns an error text that a terminal cannot display. Each input depends only on the
//! seed and on the input's number, not on earlier inputs. Therefore target, seed and number suffice to reproduce a failure.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod corpus;
mod draws;
pub mod mutation;
pub mod targets;
