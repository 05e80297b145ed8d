//! The two cores that the benchmark uses.

use crate::Error;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores of the client and of the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    pub client: usize,
    pub server: usize,
}

impl Cores {
    /// Returns the first two cores that this process may use.
    pub(crate) fn find() -> Result<Cores, Error> {
        let allowed = sched_getaffinity(None).map_err(Error::Core)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        match (cores.next(), cores.next()) {
            (Some(client), Some(server)) => Ok(Cores { client, server }),
            _ => Err(Error::OneCore),
        }
    }
}

/// Pins this process to a core.
pub(crate) fn pin(core: usize) -> Result<(), Error> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(Error::Core)
}
