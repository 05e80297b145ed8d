//! Messages in the PHY. The tests are one program, because each further program would be linked and run separately.

mod codec;
mod messages;
mod port;
mod preemption;
mod vectors;
