//! Programs under QEMU with the plugin: what is recorded of them, and that they do what they do without it.

mod cachegrind;
mod caches;
mod common;
mod counts;
mod heat;
mod processes;
mod repeatable;
