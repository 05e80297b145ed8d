//! Plan of a benchmark: its measurements, in order.

use crate::Error;
use crate::client::{BenchLoad, measure, use_at};
use crate::cores::{Cores, pin};
use crate::results::{BenchResults, LoadResult, ProcessorUse};
use crate::server::{self, ServerProcess};
use crate::service::wait_for_service;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use unrack_pool::cache_control::MemoryKind;
use unrack_rpc::WaitPolicy;
use unrack_units::Bytes;

/// Measurements of one benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchPlan {
    /// Sizes of requests, which are also the sizes of the answers.
    pub sizes: Vec<Bytes>,
    /// Numbers of calls in flight, in addition to the one that is waited for.
    pub windows: Vec<u16>,
    /// Numbers of connections of one client, which are measured at the smallest size.
    pub connections: Vec<u16>,
    /// Rates, in calls per second, at which the server's use of the processor is measured.
    pub rates: Vec<u32>,
    pub memory: MemoryKind,
    /// How client and server wait, except while the use of the processor is measured.
    pub waiting: WaitPolicy,
    /// Time for each figure. Figures of the use of the processor take ten times as long.
    pub time: Duration,
    /// Number of rounds of each figure.
    pub rounds: u16,
    /// Size of the pool.
    pub capacity: Bytes,
}

/// Smallest and largest size in bytes of a call that can be measured. The minimum is 8 because the first word is read;
/// the maximum is that of messages.
pub const SIZES: std::ops::RangeInclusive<u64> = 8..=unrack_rpc::queue::entry::MOST_BYTES as u64;

impl BenchPlan {
    /// Returns the number of steps of [`BenchPlan::run`].
    pub fn steps(&self) -> usize {
        self.loads().len() * usize::from(self.rounds) + self.rates.len()
    }

    /// Measures everything. `server` makes the command of a process that calls [`server::serve`]. `begin` is called
    /// with the name of each step when the step begins.
    ///
    /// # Errors
    /// If there are no two cores, or if the server or a call failed.
    pub fn run(
        &self,
        server: impl Fn(&server::Options) -> Result<Command, Error>,
        mut begin: impl FnMut(&str),
    ) -> Result<BenchResults, Error> {
        let cores = Cores::find()?;
        pin(cores.client)?;
        let start = |waiting| {
            let BenchPlan { memory, capacity, .. } = *self;
            let options = server::Options { memory, waiting, capacity, core: cores.server };
            ServerProcess::start(server(&options)?)
        };
        let calls = self.calls(start(self.waiting)?.socket(), &mut begin)?;
        let uses = match self.rates.is_empty() {
            true => Vec::new(),
            false => self.uses(start(WaitPolicy::Adaptive)?.socket(), &mut begin)?,
        };
        Ok(BenchResults::new(self.memory, self.waiting, calls, uses))
    }

    /// Measures everything on a service that [`server::serve_at`] serves, on this host or on another host of the pool.
    ///
    /// # Errors
    /// If there is no such service, or if a call failed.
    pub fn run_at(&self, pool: &Path, mut begin: impl FnMut(&str)) -> Result<BenchResults, Error> {
        wait_for_service(pool)?;
        let memory = unrack_pool::Client::connect(pool).map_err(unrack_rpc::Error::from)?.pool().mode;
        let calls = self.calls(pool, &mut begin)?;
        let uses = self.uses(pool, &mut begin)?;
        Ok(BenchResults::new(memory, self.waiting, calls, uses))
    }

    /// Measures all loads. Each round goes through all loads, so that a disturbance of the machine affects them
    /// equally.
    fn calls(&self, pool: &Path, begin: &mut impl FnMut(&str)) -> Result<Vec<LoadResult>, Error> {
        let mut cells: Vec<LoadResult> = self.loads().into_iter().map(LoadResult::new).collect();
        for _ in 0..self.rounds {
            for cell in &mut cells {
                begin(&cell.to_string());
                cell.add(measure(pool, cell.load, self.time)?);
            }
        }
        Ok(cells)
    }

    /// Returns the server's use of the processor at each rate.
    fn uses(&self, pool: &Path, begin: &mut impl FnMut(&str)) -> Result<Vec<ProcessorUse>, Error> {
        let bytes = self.sizes.iter().min().map_or(64, |size| size.get() as usize);
        let used = |&rate: &u32| {
            begin(&format!("{rate} calls/s"));
            use_at(pool, rate, bytes, self.time * 10)
        };
        self.rates.iter().map(used).collect()
    }

    /// Returns all loads: each size and window on one connection, each size without touching the bytes, and each number
    /// of connections.
    fn loads(&self) -> Vec<BenchLoad> {
        let smallest = self.sizes.iter().min().copied().unwrap_or_default();
        let one = BenchLoad {
            bytes: smallest.get() as usize,
            window: 0,
            connections: 1,
            shared: true,
            touched: true,
            waiting: self.waiting,
        };
        let mut loads = Vec::new();
        for &window in &self.windows {
            loads.extend(self.sizes.iter().map(|size| BenchLoad {
                bytes: size.get() as usize,
                window,
                ..one
            }));
        }
        let untouched = |size: &Bytes| BenchLoad { bytes: size.get() as usize, touched: false, ..one };
        loads.extend(self.sizes.iter().map(untouched));
        for &window in &self.windows {
            for shared in [false, true] {
                let many = |&connections: &u16| BenchLoad { connections, window, shared, ..one };
                // One connection is left out, because the first rows contain it.
                loads.extend(self.connections.iter().filter(|&&count| count > 1).map(many));
            }
        }
        loads
    }
}
