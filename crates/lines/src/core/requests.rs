//! Far requests of a window with what each waits for, and the window's time for given completions.
//!
//! [`requests`] runs the core at one latency and notes of each time which completion it waited for last. A network
//! simulation serves the requests, each when what it depends on is complete; [`replay_with`] then tells how long the window
//! takes with the completions that it found.

use super::memory::{Channel, Memory};
use super::parameters::{CoreError, CoreParameters, Lane, check_lanes};
use super::program::Program;
use super::time::{Lanes, NO_REQUEST, Time, Traced};
use super::{Machine, WindowCycles};
use crate::core::account::Account;
use crate::instruction::Block;
use crate::processor::LINE;
use crate::window::Window;

/// Request of one line of far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRequest {
    /// Index of the request whose completion it waits for; `None` for the start of the window.
    pub after: Option<u32>,
    /// Computing time from that completion on, in picoseconds.
    pub gap_ps: u64,
    /// Address of the line's first byte.
    pub address: u64,
    /// Whether the line goes to memory; nothing waits for that.
    pub is_write_back: bool,
}

/// Far requests of a window, in the order of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Requests, each after those that it waits for.
    pub requests: Vec<LineRequest>,
    /// Request that the end of the window waits for; `None` for its start.
    pub end_after: Option<u32>,
    /// Computing time from then to the end, in picoseconds.
    pub end_gap_ps: u64,
}

/// Returns the far requests of a window, lead included, as a core issues them in one lane. The rate of far memory is not
/// limited here: the network limits it.
///
/// # Errors
/// If a parameter is out of its range.
///
/// # Panics
/// If the window refers to a block or an instruction that is not there.
pub fn requests(
    parameters: &CoreParameters,
    lane: &Lane,
    blocks: &[Block],
    window: &Window,
) -> Result<Requests, CoreError> {
    let program = prepared(parameters, lane, blocks)?;
    let mut machine = Machine::new(parameters, Recorder::new(parameters, lane), ());
    machine.run(&program, window, &mut []);
    let end = machine.retired();
    let recorder = &machine.memory;
    let (end_after, end_gap_ps) = recorder.dependence(end);
    Ok(Requests { requests: recorder.requests.clone(), end_after, end_gap_ps })
}

/// Runs a window in one lane with these latencies of far requests, in cycles, by their indices in
/// [`Requests::requests`]. Write-backs have entries that are not used; requests beyond the last have the lane's latency.
///
/// # Errors
/// If a parameter is out of its range.
///
/// # Panics
/// If the window refers to a block or an instruction that is not there.
pub fn replay_with(
    parameters: &CoreParameters,
    lane: &Lane,
    blocks: &[Block],
    window: &Window,
    latencies: &[f32],
) -> Result<WindowCycles, CoreError> {
    let program = prepared(parameters, lane, blocks)?;
    let memory = Replayed { lane: *lane, near: Channel::new(lane.near), latencies, next: 0 };
    let mut machine = Machine::<Lanes<1>, _, _>::new(parameters, memory, Account::default());
    let mut cycles = vec![0.0];
    machine.run(&program, window, &mut cycles);
    let account = machine.watch.take();
    Ok(WindowCycles { instructions: super::counted(window), cycles, account })
}

fn prepared(parameters: &CoreParameters, lane: &Lane, blocks: &[Block]) -> Result<Program, CoreError> {
    parameters.check()?;
    check_lanes(&[*lane])?;
    let mut program = Program::default();
    program.prepare(blocks, parameters);
    Ok(program)
}

/// Memory that notes each far request.
struct Recorder {
    lane: Lane,
    near: Channel<Traced>,
    cycle_ps: f64,
    requests: Vec<LineRequest>,
    /// Completion of each request, in cycles from the window's start.
    completions: Vec<f64>,
    /// Cycles before the present base of times.
    base: f64,
}

impl Recorder {
    fn new(parameters: &CoreParameters, lane: &Lane) -> Recorder {
        Recorder {
            lane: *lane,
            near: Channel::new(lane.near),
            cycle_ps: 1000.0 / parameters.frequency_ghz,
            requests: Vec::new(),
            completions: Vec::new(),
            base: 0.0,
        }
    }

    /// Returns the request that a time waited for, and the picoseconds since its completion.
    fn dependence(&self, at: Traced) -> (Option<u32>, u64) {
        let after = (at.request != NO_REQUEST).then_some(at.request);
        let since = after.map_or(0.0, |after| self.completions[after as usize]);
        let gap = self.base + f64::from(at.time) - since;
        (after, (gap * self.cycle_ps).round() as u64)
    }

    fn request(&mut self, at: Traced, line: u64, is_write_back: bool) -> Traced {
        let (after, gap_ps) = self.dependence(at);
        let request = self.requests.len() as u32;
        self.requests.push(LineRequest { after, gap_ps, address: line * LINE, is_write_back });
        let end = at.after(self.lane.far.latency);
        self.completions.push(self.base + f64::from(end.time));
        Traced { time: end.time, request }
    }
}

impl Memory<Traced> for Recorder {
    fn read(&mut self, at: Traced, dispatch: Traced, line: u64, near: u16) -> Traced {
        if self.lane.is_far(near) { self.request(at, line, false) } else { self.near.send(at, dispatch) }
    }

    fn write(&mut self, at: Traced, dispatch: Traced, line: u64, near: u16) -> Traced {
        if !self.lane.is_far(near) {
            return self.near.send(at, dispatch);
        }
        // Nothing waits for a write-back: what follows waits for what it waited for.
        Traced { request: at.request, ..self.request(at, line, true) }
    }

    fn load_entry(&mut self, at: Traced, dispatch: Traced) -> Traced {
        self.near.send(at, dispatch)
    }

    fn rebase(&mut self, base: Traced) {
        self.near.rebase(base);
        self.base += f64::from(base.time);
    }

    fn reset(&mut self) {
        self.near.reset();
    }
}

/// Memory whose far latencies are given.
struct Replayed<'a> {
    lane: Lane,
    near: Channel<Lanes<1>>,
    latencies: &'a [f32],
    next: usize,
}

impl Replayed<'_> {
    fn far(&mut self, at: Lanes<1>, is_write: bool) -> Lanes<1> {
        let given = self.latencies.get(self.next).copied().filter(|_| !is_write);
        self.next += 1;
        at.after(given.unwrap_or(self.lane.far.latency))
    }
}

impl Memory<Lanes<1>> for Replayed<'_> {
    fn read(&mut self, at: Lanes<1>, dispatch: Lanes<1>, _: u64, near: u16) -> Lanes<1> {
        if self.lane.is_far(near) { self.far(at, false) } else { self.near.send(at, dispatch) }
    }

    fn write(&mut self, at: Lanes<1>, dispatch: Lanes<1>, _: u64, near: u16) -> Lanes<1> {
        if self.lane.is_far(near) { self.far(at, true) } else { self.near.send(at, dispatch) }
    }

    fn load_entry(&mut self, at: Lanes<1>, dispatch: Lanes<1>) -> Lanes<1> {
        self.near.send(at, dispatch)
    }

    fn rebase(&mut self, base: Lanes<1>) {
        self.near.rebase(base);
    }

    fn reset(&mut self) {
        self.near.reset();
    }
}
