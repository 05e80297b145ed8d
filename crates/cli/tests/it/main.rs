//! The command as its users call it. One program: linking one for each room costs more than running it.

mod common;
mod compare;
mod desk;
mod fast;
mod map;
mod phy;
mod pool;
mod rack;
mod refusals;
mod remote;
mod report;
mod rpc;
mod run;
mod scenario;
mod sim;
mod study;
mod sweep;
mod torus;
mod traffic;
mod watch;
