//! Parameters of the core model, and parameters of the memory of each lane.

use super::LANES;

/// Parameters of the core model. A latency is the number of cycles from the availability of an operation's inputs to
/// the availability of its result in a register (load-to-use).
#[derive(Clone, Debug, PartialEq)]
pub struct CoreParameters {
    /// Number of instruction groups that the core fetches per turn. A group is a sequence of instructions that ends at
    /// a taken branch or when it is full.
    pub fetch_groups: usize,
    /// Maximum number of micro-operation slots in a fetched group of instructions.
    pub fetch_width: usize,
    /// Number of micro-operation slots that the core dispatches to the reorder buffer per turn.
    pub dispatch_width: usize,
    /// Number of micro-operation slots that the core retires per turn.
    pub retire_width: usize,
    /// Number of cycles of a turn. The simulated thread can dispatch, retire and use ports once per turn. The number is
    /// 1, or more if another thread of the same core uses the other cycles.
    pub turn: f32,
    /// Number of slots of the reorder buffer.
    pub reorder_buffer: usize,
    /// Size of the load queue: maximum number of loads between dispatch and retirement.
    pub load_queue: usize,
    /// Size of the store queue: maximum number of stores that have been dispatched but not yet written to the
    /// first-level cache.
    pub store_queue: usize,
    /// Number of fill buffers: maximum number of lines in flight to the first-level cache.
    pub fill_buffers: usize,
    /// Maximum number of lines in flight that the prefetchers of the second-level cache have requested.
    pub prefetch_buffers: usize,
    /// Number of scheduler entries for integer operations, loads and stores, a multiple of 8. An operation occupies an
    /// entry from its dispatch until it begins.
    pub scheduler: usize,
    /// Number of scheduler entries for vector operations, a multiple of 8. `None` if vector operations share the
    /// entries of `scheduler`.
    pub vector_scheduler: Option<usize>,
    /// Number of operations of each kind that can begin in a cycle.
    pub ports: CorePorts,
    /// Minimum number of cycles between the beginnings of two integer divisions.
    pub divide_interval: f32,
    /// Minimum number of cycles between the beginnings of two floating-point divisions.
    pub float_divide_interval: f32,
    /// Maximum number of page walks in progress at the same time.
    pub walkers: usize,
    /// Cycles that a page walk takes in addition to its recorded loads, if the data of the access come from memory. In
    /// a virtual machine, these cycles are spent on loads of the host's page tables. The host's page tables share the
    /// caches with the data, and therefore mostly come from the same cache level as the data.
    pub walk_latency: f32,
    /// Cycles that a page walk takes in addition to its recorded loads, if a cache contains the data of the access.
    pub cached_walk_latency: f32,
    /// Cycles from the completion of a mispredicted branch to the next dispatch.
    pub mispredict_penalty: f32,
    /// Cycles from the availability of a store's data to the completion of a load that reads these data from the store
    /// queue.
    pub forward_latency: f32,
    /// Latency of each operation.
    pub operations: OperationLatencies,
    /// Latency of each cache level.
    pub caches: CacheLatencies,
    /// Core clock in GHz, which is cycles per nanosecond.
    pub frequency_ghz: f64,
}

/// Number of operations of each kind that can begin in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorePorts {
    /// Number of integer operations, including branches, integer multiplications and integer divisions.
    pub integer: usize,
    /// Integer multiplications.
    pub multiply: usize,
    /// Branches.
    pub branch: usize,
    /// Operations on vectors and floating-point numbers.
    pub vector: usize,
    /// Floating-point additions.
    pub float_add: usize,
    /// Floating-point multiplications.
    pub float_multiply: usize,
    /// Loads.
    pub load: usize,
    /// Stores.
    pub store: usize,
    /// Loads and stores together.
    pub memory: usize,
    /// Loads of vectors and floating-point numbers.
    pub vector_load: usize,
    /// Stores of vectors and floating-point numbers.
    pub vector_store: usize,
}

/// Cycles from an operation's inputs to its result, by [`OperationClass`](crate::instruction::OperationClass).
#[derive(Clone, Debug, PartialEq)]
pub struct OperationLatencies {
    /// Integer or logic operation.
    pub integer: f32,
    /// Integer multiplication.
    pub multiply: f32,
    /// Integer division of 32 bits.
    pub divide_32: f32,
    /// Integer division of 64 bits.
    pub divide_64: f32,
    /// Operation on vector registers.
    pub vector: f32,
    /// Floating-point addition.
    pub float_add: f32,
    /// Floating-point multiplication.
    pub float_multiply: f32,
    /// Floating-point division.
    pub float_divide: f32,
    /// Move between general and vector registers.
    pub cross: f32,
    /// Atomic operation or fence. The cycles count from the completion of all earlier instructions.
    pub serializing: f32,
    /// System call: time in the kernel that the program observes.
    pub system_call: f32,
}

/// Load-to-use latencies in cycles by the cache level that contains the line, and bandwidths of the caches.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheLatencies {
    /// Latency of the first-level cache.
    pub l1: f32,
    /// Latency of the second-level cache.
    pub l2: f32,
    /// Latency of the last-level cache.
    pub l3: f32,
    /// Cycles for which a line that a load requests occupies the channel to the first-level cache. 0 means unlimited
    /// bandwidth.
    pub fill_interval: f32,
    /// Cycles for which a line that a store requests occupies the channel to the first-level cache, including the later
    /// write-back of this line. 0 means unlimited bandwidth.
    pub store_fill_interval: f32,
    /// Cycles for which a prefetched line occupies the channel from the last-level cache to the second-level cache. 0
    /// means unlimited bandwidth.
    pub l3_interval: f32,
    /// Cycles for which a line that a load or store requests occupies the channel from the last-level cache to the
    /// second-level cache. Such a line takes longer than a prefetched line, because lines that no prefetcher predicts
    /// are requested in irregular order. 0 means unlimited bandwidth.
    pub l3_demand_interval: f32,
    /// Latency of a line from the private cache of another core.
    pub peer: f32,
    /// Latency of the second-level TLB, in addition to the latency of the access itself.
    pub second_level_tlb: f32,
}

/// Memory configuration of one lane: which pages are in local memory, and the latency and bandwidth of near and far
/// memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryLane {
    /// Pages that are in local memory; all other pages are in remote memory.
    pub pages: NearPages,
    /// Parameters of local memory.
    pub near: MemoryParameters,
    /// Parameters of remote memory.
    pub far: MemoryParameters,
}

/// Set of pages that are in local memory in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearPages {
    /// Every page.
    AllNear,
    /// No page. Page tables are in local memory nevertheless, because the kernel keeps them in its own memory.
    AllFar,
    /// The pages that are near in the recorded placement with this number, 0 to 15.
    Placement(u8),
}

/// Latency and bandwidth of one memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryParameters {
    /// Load-to-use latency in cycles.
    pub latency: f32,
    /// Cycles for which each line, read or written, occupies the memory's channel that reads and writes share. It is 64
    /// B divided by the bandwidth. 0 means that this channel has unlimited bandwidth.
    pub interval: f32,
    /// Cycles for which each line that is read occupies the memory's channel for reads. 0 means that this channel has
    /// unlimited bandwidth.
    pub read_interval: f32,
    /// Cycles for which each line that is written occupies the memory's channel for writes. 0 means that this channel
    /// has unlimited bandwidth.
    pub write_interval: f32,
}

impl MemoryParameters {
    /// Returns the parameters of a memory with unlimited bandwidth and the given latency, which is converted to cycles
    /// of the given core clock.
    pub fn of_latency(latency_ns: f64, frequency_ghz: f64) -> MemoryParameters {
        MemoryParameters { latency: quantum(latency_ns * frequency_ghz), ..MemoryParameters::default() }
    }

    /// Returns the time that the transfer of one 64 B line takes at a bandwidth of `rate_gb_s` (10^9 bytes per second),
    /// in cycles of the given core clock.
    pub fn interval_of(rate_gb_s: f64, frequency_ghz: f64) -> f32 {
        quantum(64.0 / rate_gb_s * frequency_ghz)
    }

    /// Checks that all numbers are in their ranges. The error contains the first number that is out of its range, and
    /// its name.
    fn check(&self, which: &'static str) -> Result<(), CoreError> {
        cycles(&[
            (if which == "near" { "near latency" } else { "far latency" }, self.latency),
            ("memory's interval", self.interval),
            ("memory's read interval", self.read_interval),
            ("memory's write interval", self.write_interval),
        ])
    }
}

/// Rounds a number of cycles to a multiple of 1/16, which is the resolution of all times in the core model.
fn quantum(cycles: f64) -> f32 {
    ((cycles * 16.0).round() / 16.0) as f32
}

/// Reason why the core model rejects parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoreError {
    /// The size of a queue or buffer, a width, or a number of ports is not 1 to 4096.
    #[error("{what} is {found}, but must be 1 to 4096")]
    Entries {
        /// Name of the parameter.
        what: &'static str,
        /// Its value.
        found: usize,
    },
    /// A latency or an interval is not 0 to 1000000 cycles.
    #[error("{what} is {found} cycles, but must be 0 to 1000000")]
    Cycles {
        /// Name of the parameter.
        what: &'static str,
        /// Its value.
        found: String,
    },
    /// The core clock is out of range.
    #[error("core clock is {0} GHz, but must be above 0 and finite")]
    Clock(String),
    /// The number of lanes is 0 or more than 16.
    #[error("{0} lanes, but 1 to 16 are simulated at once")]
    Lanes(usize),
    /// The lane whose cycle account was requested does not exist.
    #[error("account of lane {lane}, but lanes are 0 to {}", lanes - 1)]
    Account {
        /// Requested index.
        lane: usize,
        /// Number of lanes.
        lanes: usize,
    },
    /// A lane refers to a placement of pages whose number exceeds 15. The masks of placements have only 16 bits.
    #[error("placement {0}, but masks have 0 to 15")]
    Placement(u8),
}

impl CoreParameters {
    /// Returns the mean number of slots dispatched per cycle.
    pub(super) fn dispatch_per_cycle(&self) -> f32 {
        self.dispatch_width as f32 / self.turn
    }

    /// Checks that every parameter is in its range.
    ///
    /// # Errors
    /// If a parameter is out of its range. The error names this parameter.
    pub fn check(&self) -> Result<(), CoreError> {
        let entries = [
            ("number of fetch groups", self.fetch_groups),
            ("fetch width", self.fetch_width),
            ("dispatch width", self.dispatch_width),
            ("retire width", self.retire_width),
            ("reorder buffer", self.reorder_buffer),
            ("load queue", self.load_queue),
            ("store queue", self.store_queue),
            ("number of fill buffers", self.fill_buffers),
            ("number of prefetch buffers", self.prefetch_buffers),
            ("scheduler", self.scheduler),
            ("scheduler of vectors", self.vector_scheduler.unwrap_or(self.scheduler)),
            ("number of page walkers", self.walkers),
        ];
        let p = &self.ports;
        let ports = [
            ("number of integer ports", p.integer),
            ("number of multiply ports", p.multiply),
            ("number of branch ports", p.branch),
            ("number of vector ports", p.vector),
            ("number of float_add ports", p.float_add),
            ("number of float_multiply ports", p.float_multiply),
            ("number of load ports", p.load),
            ("number of store ports", p.store),
            ("number of memory ports", p.memory),
            ("number of vector_load ports", p.vector_load),
            ("number of vector_store ports", p.vector_store),
        ];
        if let Some((what, found)) =
            entries.into_iter().chain(ports).find(|(_, found)| !(1..=4096).contains(found))
        {
            return Err(CoreError::Entries { what, found });
        }
        let (o, c) = (&self.operations, &self.caches);
        cycles(&[
            ("turn", self.turn),
            ("mispredict penalty", self.mispredict_penalty),
            ("forward latency", self.forward_latency),
            ("divide interval", self.divide_interval),
            ("float_divide interval", self.float_divide_interval),
            ("walk latency", self.walk_latency),
            ("cached walk latency", self.cached_walk_latency),
            ("integer latency", o.integer),
            ("multiply latency", o.multiply),
            ("divide_32 latency", o.divide_32),
            ("divide_64 latency", o.divide_64),
            ("vector latency", o.vector),
            ("float_add latency", o.float_add),
            ("float_multiply latency", o.float_multiply),
            ("float_divide latency", o.float_divide),
            ("cross latency", o.cross),
            ("serializing latency", o.serializing),
            ("system_call latency", o.system_call),
            ("L1 latency", c.l1),
            ("L2 latency", c.l2),
            ("L3 latency", c.l3),
            ("fill interval", c.fill_interval),
            ("store fill interval", c.store_fill_interval),
            ("L3 interval", c.l3_interval),
            ("L3 demand interval", c.l3_demand_interval),
            ("peer latency", c.peer),
            ("second-level TLB latency", c.second_level_tlb),
        ])?;
        (self.frequency_ghz > 0.0 && self.frequency_ghz.is_finite())
            .then_some(())
            .ok_or_else(|| CoreError::Clock(self.frequency_ghz.to_string()))
    }
}

/// Checks the lanes of a replay.
///
/// # Errors
/// If there is no lane or there are more than 16, or if a number of a lane is out of its range.
pub(super) fn check_lanes(lanes: &[MemoryLane]) -> Result<(), CoreError> {
    if lanes.is_empty() || lanes.len() > LANES {
        return Err(CoreError::Lanes(lanes.len()));
    }
    for lane in lanes {
        if let NearPages::Placement(number @ 16..) = lane.pages {
            return Err(CoreError::Placement(number));
        }
        lane.near.check("near")?;
        lane.far.check("far")?;
    }
    Ok(())
}

fn cycles(numbers: &[(&'static str, f32)]) -> Result<(), CoreError> {
    let wrong = numbers.iter().find(|(_, found)| !(0.0..=1e6).contains(found));
    wrong.map_or(Ok(()), |(what, found)| Err(CoreError::Cycles { what, found: found.to_string() }))
}
