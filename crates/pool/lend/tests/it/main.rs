//! Buffers that are lent between endpoints, in each kind of memory.

mod hostile;
mod lifetimes;
mod pool;
mod references;
