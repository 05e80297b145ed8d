//! Sockets by reference as programs meet them. One program, since each further one is linked again and runs alone.
//!
//! Tests that need the preload library run themselves again below it: see [`common`].

mod calls;
mod common;
mod conformance;
mod edges;
mod flows;
mod further;
mod fuzz;
mod handover;
mod hostile;
mod kills;
mod trust;
