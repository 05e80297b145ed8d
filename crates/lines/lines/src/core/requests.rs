//! Requests to far memory, for a simulated network: what each waits for, and how long a window takes with given latencies.
//!
//! ```text
//! window --Requests::trace--> requests with dependences --network--> latency of each --Requests::replay--> cycles
//! ```
//!
//! A request is issued when all that it needs is complete: addresses, room in queues and buffers. With given latencies the
//! last of these is one far request, or the window's start; [`LineRequest::after`] names it. It is the one that is last where
//! all far requests take the latency of the trace.

use super::machine::Machine;
use super::memory::{Device, Memory};
use super::parameters::{CoreError, CoreParameters, Lane, check_lanes};
use super::program::Program;
use super::time::{Lanes, NO_REQUEST, Time, Traced};
use crate::instruction::CodeBlock;
use crate::window::RecordedWindow;

/// Moment that something waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// Index of the request that has to be complete; `None` for the window's start.
    pub request: Option<u32>,
    /// Time that the core needs from then on, in picoseconds.
    pub gap_ps: u64,
}

/// Request of a line in far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRequest {
    /// Moment of its issue.
    pub after: After,
    /// Address of its first byte.
    pub address: u64,
    /// Whether it is a modified line that leaves the caches: nothing waits for it. A non-temporal store is not: its buffer
    /// does.
    pub is_write_back: bool,
}

/// Requests of a window, in the order of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRequests {
    /// Requests; each waits for an earlier one.
    pub requests: Vec<LineRequest>,
    /// Retirement of the last instruction.
    pub end: After,
}

/// Core that finds the far requests of windows, and runs windows with given latencies of these.
pub struct FarRequests {
    tracer: Machine<Traced, Tracing, ()>,
    player: Machine<Lanes<1>, Given, ()>,
    parameters: CoreParameters,
    program: Program,
}

impl FarRequests {
    /// Creates a core. `lane` says which pages are far, and how long far requests take in a trace; the network decides how
    /// many it takes at once, so the lane's far interval does not count.
    ///
    /// # Errors
    /// If a number is out of its range.
    pub fn new(parameters: &CoreParameters, lane: Lane) -> Result<FarRequests, CoreError> {
        parameters.check()?;
        check_lanes(&[lane])?;
        let tracing = Tracing {
            lane,
            near: Device::new(&lane.near),
            frequency_ghz: parameters.frequency_ghz,
            base: 0.0,
            requests: Vec::new(),
            ends: Vec::new(),
        };
        let near = Device::new(&lane.near);
        let given = Given { lane, near, latencies: Vec::new(), next: 0 };
        let (tracer, player) = (Machine::new(parameters, tracing, ()), Machine::new(parameters, given, ()));
        Ok(FarRequests { tracer, player, parameters: parameters.clone(), program: Program::default() })
    }

    /// Returns the far requests of a window, its lead included. `blocks` are those of the recording.
    ///
    /// # Panics
    /// If the window contradicts its blocks, which none does that a [`Reader`](crate::recording::Reader) returned.
    pub fn trace(&mut self, window: &RecordedWindow, blocks: &[CodeBlock]) -> WindowRequests {
        self.program.prepare(blocks, &self.parameters);
        self.tracer.run(&self.program, window, &mut [0.0]);
        let end = self.tracer.retired();
        let memory = &mut self.tracer.memory;
        let end = memory.after(end);
        WindowRequests { requests: std::mem::take(&mut memory.requests), end }
    }

    /// Returns the cycles that a window takes behind its lead, when each of its far requests takes its own latency, in cycles
    /// from its issue. Those of write-backs do not count.
    ///
    /// # Panics
    /// If there are fewer latencies than requests, or the window contradicts its blocks.
    pub fn replay(&mut self, window: &RecordedWindow, blocks: &[CodeBlock], latencies: &[f32]) -> f64 {
        self.program.prepare(blocks, &self.parameters);
        self.player.memory.latencies.clear();
        self.player.memory.latencies.extend_from_slice(latencies);
        let mut cycles = [0.0];
        self.player.run(&self.program, window, &mut cycles);
        cycles[0]
    }
}

/// Memory that notes far requests.
struct Tracing {
    lane: Lane,
    near: Device<Traced>,
    frequency_ghz: f64,
    /// Cycles from the window's start to the time from which times are counted.
    base: f64,
    requests: Vec<LineRequest>,
    /// Completion of each request, in cycles from the window's start.
    ends: Vec<f64>,
}

impl Tracing {
    /// Returns what a time waited for, and for how long.
    fn after(&self, time: Traced) -> After {
        let request = (time.request != NO_REQUEST).then_some(time.request);
        let from = request.map_or(0.0, |request| self.ends[request as usize]);
        // A load that overtakes a store's request for its line is earlier than the request's end: it waits for nothing.
        let cycles = (self.base + f64::from(time.time) - from).max(0.0);
        After { request, gap_ps: (cycles * 1000.0 / self.frequency_ghz).round() as u64 }
    }

    /// Notes a far request. Returns when it is complete.
    fn request(&mut self, at: Traced, line: u64, is_write_back: bool) -> Traced {
        let number = self.requests.len() as u32;
        self.requests.push(LineRequest { after: self.after(at), address: line * 64, is_write_back });
        let end = at.time + self.lane.far.latency;
        self.ends.push(self.base + f64::from(end));
        Traced { time: end, request: number }
    }
}

impl Memory<Traced> for Tracing {
    fn read(&mut self, at: Traced, dispatch: Traced, line: u64, near: u16) -> Traced {
        if self.lane.is_far(near) {
            return self.request(at, line, false);
        }
        self.near.read(at, dispatch)
    }

    fn write(&mut self, at: Traced, dispatch: Traced, line: u64, near: u16) -> Traced {
        if self.lane.is_far(near) { self.request(at, line, false) } else { self.near.write(at, dispatch) }
    }

    fn write_back(&mut self, at: Traced, dispatch: Traced, line: u64, near: u16) {
        if self.lane.is_far(near) {
            self.request(at, line, true);
        } else {
            self.near.write(at, dispatch);
        }
    }

    fn load_entry(&mut self, at: Traced) -> Traced {
        self.near.load_entry(at)
    }

    fn rebase(&mut self, base: Traced) {
        self.base += f64::from(base.time);
        self.near.rebase(base);
    }

    fn reset(&mut self) {
        self.base = 0.0;
        self.near.reset();
        self.requests.clear();
        self.ends.clear();
    }
}

/// Memory whose far requests take given latencies.
struct Given {
    lane: Lane,
    near: Device<Lanes<1>>,
    latencies: Vec<f32>,
    next: usize,
}

impl Given {
    /// Returns when the next far request is complete.
    fn given(&mut self, at: Lanes<1>) -> Lanes<1> {
        self.next += 1;
        at.after(self.latencies[self.next - 1])
    }
}

impl Memory<Lanes<1>> for Given {
    fn read(&mut self, at: Lanes<1>, dispatch: Lanes<1>, _: u64, near: u16) -> Lanes<1> {
        if self.lane.is_far(near) {
            return self.given(at);
        }
        self.near.read(at, dispatch)
    }

    fn write(&mut self, at: Lanes<1>, dispatch: Lanes<1>, _: u64, near: u16) -> Lanes<1> {
        if self.lane.is_far(near) { self.given(at) } else { self.near.write(at, dispatch) }
    }

    fn write_back(&mut self, at: Lanes<1>, dispatch: Lanes<1>, line: u64, near: u16) {
        self.write(at, dispatch, line, near);
    }

    fn load_entry(&mut self, at: Lanes<1>) -> Lanes<1> {
        self.near.load_entry(at)
    }

    fn rebase(&mut self, base: Lanes<1>) {
        self.near.rebase(base);
    }

    fn reset(&mut self) {
        self.next = 0;
        self.near.reset();
    }
}
