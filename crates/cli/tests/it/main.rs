//! The command as its users call it. All tests are one program, since linking one for each room costs more than
//! running it.

mod agent;
mod common;
mod compare;
mod desk;
mod diff;
mod fail_if;
mod fast;
mod keys;
mod kills;
mod limits;
mod map;
mod memory;
mod phy;
mod pid;
mod pool;
mod provenance;
mod rack;
mod refusals;
mod remote;
mod replace;
mod report;
mod rpc;
mod run;
mod scenario;
mod seat;
mod silence;
mod sim;
mod study;
mod suggestions;
mod sweep;
mod torus;
mod traffic;
mod watch;
