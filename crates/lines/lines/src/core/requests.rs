//! Requests of a window to remote memory, for the simulation of a network. This module finds the requests and their
//! dependences, and computes the window's duration for given latencies of its requests.
//!
//! ```text
//! window --trace--> requests with dependences --network--> latency of each --replay--> cycles
//! ```
//!
//! A request is issued when everything that it needs is available: its address, and room in queues and buffers. The
//! last of these conditions to be met follows either from the completion of an earlier far request or from the window's
//! start; [`LineRequest::after`] names this event. The event is determined in a trace, in which all far requests have
//! the same latency.

use super::machine::CoreModel;
use super::memory::{Device, Memory};
use super::parameters::{CoreError, CoreParameters, MemoryLane, check_lanes};
use super::program::Program;
use super::time::{LaneTime, LaneTimes, NO_REQUEST, TracedTime};
use crate::instruction::CodeBlock;
use crate::window::RecordedWindow;

/// Point in time, relative to a reference point. The reference point is the completion of a request to remote memory, or
/// the window's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// Index of the far request whose completion is the reference point; `None` if the reference point is the window's
    /// start.
    pub request: Option<u32>,
    /// Time from the reference point to this point in time, in picoseconds.
    pub gap_ps: u64,
}

/// Request for a line in remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRequest {
    /// Time at which the core issues the request.
    pub after: After,
    /// Address of the first byte of the line.
    pub address: u64,
    /// Whether the request is the write-back of a modified line, for which no instruction waits. The request of a
    /// non-temporal store is not a write-back, because it occupies a buffer until it completes.
    pub is_write_back: bool,
}

/// Requests of a window to remote memory, in program order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRequests {
    /// Far requests. Each request depends on an earlier request or on the window's start.
    pub requests: Vec<LineRequest>,
    /// Time at which the last instruction of the window retires.
    pub end: After,
}

/// Core model that finds the far requests of windows, and replays windows with a given latency for each far request.
pub struct FarRequests {
    tracer: CoreModel<TracedTime, Tracing, ()>,
    player: CoreModel<LaneTimes<1>, GivenLatencies, ()>,
    parameters: CoreParameters,
    program: Program,
}

impl FarRequests {
    /// Creates a core model for one memory configuration. `lane` determines which pages are far, and the latency of all
    /// requests to remote memory in a trace. The intervals (bandwidth limits) of the lane's remote memory are ignored,
    /// because the simulated network limits the bandwidth.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn new(parameters: &CoreParameters, lane: MemoryLane) -> Result<FarRequests, CoreError> {
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
        let given = GivenLatencies { lane, near, latencies: Vec::new(), next: 0 };
        let (tracer, player) =
            (CoreModel::new(parameters, tracing, ()), CoreModel::new(parameters, given, ()));
        Ok(FarRequests { tracer, player, parameters: parameters.clone(), program: Program::default() })
    }

    /// Returns the requests of a window to remote memory, including those of its lead (the first instructions, whose
    /// cycles are not counted). `blocks` are the code blocks of the recording.
    ///
    /// # Panics
    /// If the window is inconsistent with its blocks. Windows that a [`Reader`](crate::recording::Reader) returns are
    /// always consistent with their blocks.
    pub fn trace(&mut self, window: &RecordedWindow, blocks: &[CodeBlock]) -> WindowRequests {
        self.program.prepare(blocks, &self.parameters);
        self.tracer.run(&self.program, window, &mut [0.0]);
        let end = self.tracer.retired();
        let memory = &mut self.tracer.memory;
        let end = memory.after(end);
        WindowRequests { requests: std::mem::take(&mut memory.requests), end }
    }

    /// Returns the cycles that a window takes if its requests to remote memory have the given latencies. The cycles of the
    /// window's lead do not count. `latencies` contains one latency for each far request, in cycles from the request's
    /// issue. The latencies of write-backs have no effect.
    ///
    /// # Panics
    /// If there are fewer latencies than far requests, or if the window is inconsistent with its blocks.
    pub fn replay(&mut self, window: &RecordedWindow, blocks: &[CodeBlock], latencies: &[f32]) -> f64 {
        self.program.prepare(blocks, &self.parameters);
        self.player.memory.latencies.clear();
        self.player.memory.latencies.extend_from_slice(latencies);
        let mut cycles = [0.0];
        self.player.run(&self.program, window, &mut cycles);
        cycles[0]
    }
}

/// Memory model that records each far request, with the event on which it depends.
struct Tracing {
    lane: MemoryLane,
    near: Device<TracedTime>,
    frequency_ghz: f64,
    /// Cycles from the window's start to the current time base.
    base: f64,
    requests: Vec<LineRequest>,
    /// Completion of each request, in cycles from the window's start.
    ends: Vec<f64>,
}

impl Tracing {
    /// Expresses `time` relative to the completion of the far request that determined it, or relative to the window's
    /// start if no far request did.
    fn after(&self, time: TracedTime) -> After {
        let request = (time.request != NO_REQUEST).then_some(time.request);
        let from = request.map_or(0.0, |request| self.ends[request as usize]);
        // If a load requests a line before an earlier store does, the load can complete before the store's request. In
        // this case the gap is 0.
        let cycles = (self.base + f64::from(time.time) - from).max(0.0);
        After { request, gap_ps: (cycles * 1000.0 / self.frequency_ghz).round() as u64 }
    }

    /// Records a far request that is issued at `at`, and returns when it completes.
    fn request(&mut self, at: TracedTime, line: u64, is_write_back: bool) -> TracedTime {
        let number = self.requests.len() as u32;
        self.requests.push(LineRequest { after: self.after(at), address: line * 64, is_write_back });
        let end = at.time + self.lane.far.latency;
        self.ends.push(self.base + f64::from(end));
        TracedTime { time: end, request: number }
    }
}

impl Memory<TracedTime> for Tracing {
    fn read(&mut self, at: TracedTime, dispatch: TracedTime, line: u64, near: u16) -> TracedTime {
        if self.lane.is_far(near) {
            return self.request(at, line, false);
        }
        self.near.read(at, dispatch)
    }

    fn write(&mut self, at: TracedTime, dispatch: TracedTime, line: u64, near: u16) -> TracedTime {
        if self.lane.is_far(near) { self.request(at, line, false) } else { self.near.write(at, dispatch) }
    }

    fn write_back(&mut self, at: TracedTime, dispatch: TracedTime, line: u64, near: u16) {
        if self.lane.is_far(near) {
            self.request(at, line, true);
        } else {
            self.near.write(at, dispatch);
        }
    }

    fn load_entry(&mut self, at: TracedTime) -> TracedTime {
        self.near.load_entry(at)
    }

    fn rebase(&mut self, base: TracedTime) {
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

/// Memory model in which the caller gives the latency of each far request.
struct GivenLatencies {
    lane: MemoryLane,
    near: Device<LaneTimes<1>>,
    latencies: Vec<f32>,
    next: usize,
}

impl GivenLatencies {
    /// Returns when the next far request, which is issued at `at`, completes.
    fn given(&mut self, at: LaneTimes<1>) -> LaneTimes<1> {
        self.next += 1;
        at.after(self.latencies[self.next - 1])
    }
}

impl Memory<LaneTimes<1>> for GivenLatencies {
    fn read(&mut self, at: LaneTimes<1>, dispatch: LaneTimes<1>, _: u64, near: u16) -> LaneTimes<1> {
        if self.lane.is_far(near) {
            return self.given(at);
        }
        self.near.read(at, dispatch)
    }

    fn write(&mut self, at: LaneTimes<1>, dispatch: LaneTimes<1>, _: u64, near: u16) -> LaneTimes<1> {
        if self.lane.is_far(near) { self.given(at) } else { self.near.write(at, dispatch) }
    }

    fn write_back(&mut self, at: LaneTimes<1>, dispatch: LaneTimes<1>, line: u64, near: u16) {
        self.write(at, dispatch, line, near);
    }

    fn load_entry(&mut self, at: LaneTimes<1>) -> LaneTimes<1> {
        self.near.load_entry(at)
    }

    fn rebase(&mut self, base: LaneTimes<1>) {
        self.near.rebase(base);
    }

    fn reset(&mut self) {
        self.next = 0;
        self.near.reset();
    }
}
