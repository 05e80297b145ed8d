//! Parameters of a core, and parameters that distinguish lanes.

use super::LANES;

/// Parameters of a core. Latencies are in cycles from the inputs to the result in a register: load-to-use.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreParameters {
    /// Groups fetched per turn. A group is a sequence of instructions up to a taken branch.
    pub fetch_groups: usize,
    /// Maximum number of slots in a group.
    pub fetch_width: usize,
    /// Slots dispatched to the reorder buffer per turn.
    pub dispatch_width: usize,
    /// Slots retired per turn.
    pub retire_width: usize,
    /// Cycles of a turn. It is 1, or more if another thread of the core uses the other cycles to dispatch, retire and
    /// occupy ports.
    pub turn: f32,
    /// Slots of the reorder buffer.
    pub reorder_buffer: usize,
    /// Load queue: loads between dispatch and retirement.
    pub load_queue: usize,
    /// Store queue: stores between dispatch and their write to the first level.
    pub store_queue: usize,
    /// Fill buffers: lines that the first level can await at once.
    pub fill_buffers: usize,
    /// Lines that the prefetchers of the second level can await at once.
    pub prefetch_buffers: usize,
    /// Scheduler entries for integer operations, loads and stores, from dispatch to the beginning of the operation; a
    /// multiple of 8.
    pub scheduler: usize,
    /// Scheduler entries for vector operations; a multiple of 8. `None` if the other scheduler also holds vector
    /// operations.
    pub vector_scheduler: Option<usize>,
    /// Operations of each kind that can begin in a cycle.
    pub ports: CorePorts,
    /// Cycles between the beginnings of two integer divisions.
    pub divide_interval: f32,
    /// Cycles between the beginnings of two floating-point divisions.
    pub float_divide_interval: f32,
    /// Page walks that can be in progress at once.
    pub walkers: usize,
    /// Cycles that a page walk takes in addition to its loads, if the data come from memory. In a virtual machine
    /// they are spent in the host's page tables. These share the caches with the data, and therefore mostly come from
    /// the same level.
    pub walk_latency: f32,
    /// Cycles that a page walk takes in addition to its loads, if a cache contains the data.
    pub cached_walk_latency: f32,
    /// Cycles from the completion of a mispredicted branch to the next dispatch.
    pub mispredict_penalty: f32,
    /// Cycles from the availability of a store's data to that of a load that reads them.
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
    /// Integer operations, including branches, integer multiplications and integer divisions.
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
    /// Operation of vector registers.
    pub vector: f32,
    /// Floating-point addition.
    pub float_add: f32,
    /// Floating-point multiplication.
    pub float_multiply: f32,
    /// Floating-point division.
    pub float_divide: f32,
    /// Move between general and vector registers.
    pub cross: f32,
    /// Atomic operation or fence, after the instructions before it have completed.
    pub serializing: f32,
    /// System call, as the time that the program sees.
    pub system_call: f32,
}

/// Load-to-use latency in cycles, by the level that contains the line.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheLatencies {
    /// First level.
    pub l1: f32,
    /// Second level.
    pub l2: f32,
    /// Last level.
    pub l3: f32,
    /// Cycles for which a loaded line occupies the channel to the first level. 0: no limit.
    pub fill_interval: f32,
    /// Cycles for which a line that a store requests occupies the channel to the first level, including the
    /// write-back that it later causes. 0: no limit.
    pub store_fill_interval: f32,
    /// Cycles for which a prefetched line occupies the channel from the last level to the second. 0: no limit.
    pub l3_interval: f32,
    /// The same for a line that a load or store requests. It takes longer, because lines that no prefetcher predicts
    /// are requested in irregular order. 0: no limit.
    pub l3_demand_interval: f32,
    /// Private cache of another core.
    pub peer: f32,
    /// Second-level TLB, in addition to the access itself.
    pub second_level_tlb: f32,
}

/// Memory configuration of one lane: where pages are, and the latency and bandwidth of near and far memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryLane {
    /// Pages in near memory.
    pub pages: NearPages,
    /// Parameters of near memory.
    pub near: MemoryParameters,
    /// Parameters of far memory.
    pub far: MemoryParameters,
}

/// Set of pages that a lane has in near memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearPages {
    /// Every page.
    AllNear,
    /// No page. Page tables stay near, because the kernel keeps them in its own memory.
    AllFar,
    /// The pages that are near in the placement with this number, 0 to 15.
    Placement(u8),
}

/// Latency and bandwidth of one memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryParameters {
    /// Load-to-use latency in cycles.
    pub latency: f32,
    /// Cycles for which one line, read or written, occupies the channel that reads and writes share: 64 B divided by
    /// the bandwidth. 0: no limit.
    pub interval: f32,
    /// Cycles for which a line occupies the channel for reads only. 0: no limit.
    pub read_interval: f32,
    /// Cycles for which a line occupies the channel for writes only. 0: no limit.
    pub write_interval: f32,
}

impl MemoryParameters {
    /// Returns memory with this latency and unlimited bandwidth, converted to cycles of this core clock.
    pub fn of_latency(latency_ns: f64, frequency_ghz: f64) -> MemoryParameters {
        MemoryParameters { latency: quantum(latency_ns * frequency_ghz), ..MemoryParameters::default() }
    }

    /// Returns the cycles that 64 B take at this bandwidth, in 10^9 bytes per second, converted to cycles of this
    /// core clock.
    pub fn interval_of(rate_gb_s: f64, frequency_ghz: f64) -> f32 {
        quantum(64.0 / rate_gb_s * frequency_ghz)
    }

    /// Checks that all numbers are in their ranges. The error contains the number that is not, and its name.
    fn check(&self, which: &'static str) -> Result<(), CoreError> {
        cycles(&[
            (if which == "near" { "near latency" } else { "far latency" }, self.latency),
            ("memory's interval", self.interval),
            ("memory's read interval", self.read_interval),
            ("memory's write interval", self.write_interval),
        ])
    }
}

/// Rounds cycles to multiples of 1/16, the resolution of all times in the model.
fn quantum(cycles: f64) -> f32 {
    ((cycles * 16.0).round() / 16.0) as f32
}

/// Reason why parameters are rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoreError {
    /// A number of entries is out of range.
    #[error("{what} is {found}, but must be 1 to 4096")]
    Entries {
        /// Name of the parameter.
        what: &'static str,
        /// Its value.
        found: usize,
    },
    /// A number of cycles is out of range.
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
    /// There are no lanes, or too many.
    #[error("{0} lanes, but 1 to 16 are simulated at once")]
    Lanes(usize),
    /// The lane for which the account should be kept does not exist.
    #[error("account of lane {lane}, but lanes are 0 to {}", lanes - 1)]
    Account {
        /// Requested index.
        lane: usize,
        /// Number of lanes.
        lanes: usize,
    },
    /// A lane refers to a placement that has no bit in a mask.
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
    /// If one is not; the error names it.
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
/// If there are no lanes or too many, or if a lane has a number out of its range.
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
