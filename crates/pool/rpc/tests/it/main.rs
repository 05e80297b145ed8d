//! Calls over memory and TCP. One program, since each further one is linked again and runs alone.

mod asking;
mod awaited;
mod calls;
mod common;
mod descriptor_calls;
mod descriptors;
mod forks;
mod hostile;
mod hostile_server;
mod kills;
mod leaks;
mod stopped;
mod tcp;
mod tokio;
