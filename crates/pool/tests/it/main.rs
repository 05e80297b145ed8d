//! The pool as its users meet it. One program, since each further one is linked again and runs alone.

mod arena;
mod channels;
mod common;
mod descriptors;
mod devices;
mod hostile;
mod kills;
mod modes;
mod quotas;
mod restart;
mod sizes;
mod users;
