//! Small programs with a known use of memory: `unrack-lines-kernels NAME [SIZE] [--rounds N]`.
#![forbid(unsafe_code)]

fn main() {}
