//! The `unrack` command: thin, no logic of its own.
fn main() {}
