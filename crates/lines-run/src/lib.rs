//! Loads and stores of a program, seen from outside.
//!
//! | module | holds |
//! |---|---|
//! | [`calibrate`] | caches, memory and core of this machine, measured |
//!
//! The models are in `unrack-lines` (docs/decisions/0018-lines.md).
#![deny(unsafe_code)]

pub mod calibrate;
