//! Messages in the PHY. One program, since each further one is linked again and runs alone.

mod codec;
mod messages;
mod port;
mod preemption;
mod vectors;
