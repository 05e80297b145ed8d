//! Memory nodes and their clients. One program, since each further one is linked again and runs alone.

mod common;
mod hostile;
mod memory;
mod pair;
mod several;
mod shared;
mod silence;
mod tcp;
