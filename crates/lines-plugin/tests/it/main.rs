//! Programs under QEMU with the plugin: what is recorded of them, and that they do what they do without it.

mod common;
mod counts;
mod processes;
mod repeatable;
