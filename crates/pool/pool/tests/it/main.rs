//! The pool as its users meet it. One program, since each further one is linked again and runs alone.

mod arena;
mod channels;
mod common;
mod descriptors;
mod devices;
mod host_kills;
mod hostile;
mod hostile_hosts;
mod hosts;
mod kills;
mod modes;
mod quotas;
mod restart;
mod silent;
mod sizes;
mod trust;
mod users;
