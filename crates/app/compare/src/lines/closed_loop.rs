//! Turns recorded windows into requests for a simulated network, and the network's completion times back into cycles.
//!
//! ```text
//! windows of the threads that the run waits for --at the fabric's unloaded latency--> requests and their dependences
//!     --all compute blades at once--> completion time of each --the same windows again--> cycles
//! ```
//! The latency of local memory is the latency of the memory itself: on a memory blade it is added to the time that the fabric takes.
//!
//! The delay of the run is the delay of the curve at the unloaded latency, which all windows contribute to, times a ratio from the
//! simulated windows: their delay in the closed loop divided by their delay at the unloaded latency. Both delays of a window are nearly
//! proportional, so few windows give a narrow interval (Cochran, *Sampling Techniques*, 3rd ed., 1977, section 12.8, ratio estimation in
//! double sampling).

use super::estimate::SymmetricEstimate;
use super::instrumented::Instrumented;
use super::machine::MachineModel;
use super::model::CyclesModel;
use super::windows::{NEAR, at_once};
use crate::error::{Error, failed};
use unrack_lines::core::{
    After, FarRequests, LineRequest, NearPages, WindowCycles, WindowRequests, WindowSample,
};
use unrack_lines::recording::Blocks;
use unrack_lines::summary::Summary;
use unrack_lines::window::RecordedWindow;
use unrack_units::Time;
use unrack_workload::lines::{Dependence, LineMessage, LineTrace, LineWindow};

/// Maximum number of recorded windows that are simulated: enough for an interval of some percent, and few enough to fit into memory.
const WINDOWS: usize = 256;
/// Number of compute blades whose completion times are fed back into the core model.
const REPLICAS: u32 = 4;

/// Recorded windows of a run that are simulated on a network.
pub(crate) struct ClosedLoop<'a> {
    model: &'a CyclesModel,
    pages: NearPages,
    programs: Vec<Program>,
}

/// Windows of one program.
struct Program {
    /// Index of its record.
    record: usize,
    /// Mean number of threads of the program that run at the same time.
    at_once: f64,
    /// Number of instructions that each recorded window represents, by thread.
    periods: Vec<u64>,
    blocks: Blocks,
    windows: Vec<Chosen>,
}

/// A window that is simulated on a network.
struct Chosen {
    /// Index of the trace's thread that the window belongs to.
    lane: usize,
    window: RecordedWindow,
}

/// Memory requests of all windows at the unloaded latency of one fabric, and the windows from which they were made.
pub(crate) struct TracedRequests {
    pub trace: LineTrace,
    pub found: TraceWindows,
}

/// Windows from which a trace was made.
pub(crate) struct TraceWindows {
    /// Windows in the order of the trace.
    order: Vec<TraceWindow>,
    /// Index of the fabric, in the order of the last curve's latencies.
    fabric: usize,
}

/// Position of a window in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TraceWindow {
    program: usize,
    window: usize,
    /// Index of the window's first request in the trace.
    first: usize,
    requests: usize,
}

impl<'a> ClosedLoop<'a> {
    /// Selects evenly spaced recorded windows of the programs that the run waits for.
    ///
    /// # Errors
    /// If a recording is damaged.
    pub(crate) fn new(run: &Instrumented, model: &'a CyclesModel) -> Result<ClosedLoop<'a>, Error> {
        let records: Vec<usize> = model.delays.threads.iter().map(|thread| thread.record).collect();
        let summary = |record: usize| &run.processes()[record].summary;
        let all: u64 = records.iter().map(|record| summary(*record).sample.windows).sum();
        let stride = (all as usize).div_ceil(WINDOWS).max(1);
        let (mut programs, mut number) = (Vec::new(), 0usize);
        for record in records {
            let Some(mut reader) = run.processes()[record].open()? else { continue };
            let summary = summary(record);
            let ranks = ranks(summary);
            let mut windows = Vec::new();
            while let Some(mut window) = reader.next_window().map_err(failed)? {
                if number.is_multiple_of(stride) {
                    let lane = ranks.get(window.thread as usize).copied().unwrap_or(0);
                    model.marks.mark(record, &mut window);
                    windows.push(Chosen { lane, window });
                }
                number += 1;
            }
            let periods = summary.threads.iter().map(|thread| thread.period).collect();
            let at_once = at_once(summary);
            programs.push(Program { record, at_once, periods, blocks: reader.into_blocks(), windows });
        }
        let pages = model.fabrics().pages;
        Ok(ClosedLoop { model, pages, programs })
    }

    /// Returns the memory requests of the selected windows on a fabric. If there are more than about `most` requests, only evenly spaced
    /// windows are used.
    ///
    /// # Errors
    /// If a latency is out of range, or requests contradict each other.
    pub(crate) fn traced(&self, fabric: usize, most: usize) -> Result<TracedRequests, Error> {
        let mut all: Vec<(TraceWindow, usize, WindowRequests)> = Vec::new();
        for (number, program) in self.programs.iter().enumerate() {
            let mut core = self.core(program, fabric)?;
            for (index, Chosen { lane, window }) in program.windows.iter().enumerate() {
                let requests = core.trace(window, program.blocks.all());
                let place = TraceWindow {
                    program: number,
                    window: index,
                    first: 0,
                    requests: requests.requests.len(),
                };
                all.push((place, *lane, requests));
            }
        }
        let sum: usize = all.iter().map(|(place, ..)| place.requests).sum();
        let stride = sum.div_ceil(most.max(1)).max(1);
        let mut threads: Vec<Vec<(TraceWindow, LineWindow)>> = Vec::new();
        for (place, lane, requests) in all.into_iter().step_by(stride) {
            threads.resize_with(threads.len().max(lane + 1), Vec::new);
            threads[lane].push((place, with_memory(&requests, &self.model.machine)));
        }
        let mut order: Vec<TraceWindow> = threads.iter().flatten().map(|(place, _)| *place).collect();
        let mut first = 0;
        for place in &mut order {
            place.first = first;
            first += place.requests;
        }
        let windows =
            |thread: Vec<(TraceWindow, LineWindow)>| thread.into_iter().map(|(_, window)| window).collect();
        let threads: Vec<Vec<LineWindow>> = threads.into_iter().map(windows).collect();
        Ok(TracedRequests {
            trace: LineTrace::new(&threads).map_err(failed)?,
            found: TraceWindows { order, fabric },
        })
    }

    /// Returns the delay of the run in seconds, if each memory request takes the time that the simulated fabric needed for it:
    /// `completion(r, n)` is the time of request `n` on compute blade `r`.
    ///
    /// # Errors
    /// If a latency is out of range.
    pub(crate) fn delay_s(
        &self,
        found: &TraceWindows,
        replicas: u32,
        completion: impl Fn(u32, usize) -> Option<Time>,
    ) -> Result<SymmetricEstimate, Error> {
        let unloaded_s = self.model.fabric_delay_s(found.fabric);
        let mut windows = Vec::new();
        for (number, program) in self.programs.iter().enumerate() {
            let mut core = self.core(program, found.fabric)?;
            for place in found.order.iter().filter(|place| place.program == number) {
                let window = &program.windows[place.window].window;
                let Some(known) = self.model.window(program.record, window) else { continue };
                let taken = replicas.min(REPLICAS);
                let cycles = (0..taken).map(|replica| {
                    let latency = |request| self.latency(found, completion(replica, place.first + request));
                    let latencies: Vec<f32> = (0..place.requests).map(latency).collect();
                    core.replay(window, program.blocks.all(), &latencies)
                });
                let cycles = cycles.sum::<f64>() / f64::from(taken);
                let lane = self.model.fabric_lane(found.fabric);
                let delays = [known.cycles[lane], cycles].map(|cycles| cycles - known.cycles[NEAR]);
                let period = program.periods.get(window.thread as usize).copied().unwrap_or(1);
                let weighted = delays.map(|cycles| cycles * period as f64);
                windows.push(WindowCycles { cycles: weighted.into(), ..known.clone() });
            }
        }
        // The ratio needs at least two windows that access remote memory. Without it, only the curve gives the delay.
        let ratio = WindowSample::new(&windows).slowdown(1, 0).map(SymmetricEstimate::from);
        Ok(ratio.map_or(unloaded_s, |ratio| unloaded_s.product(ratio)))
    }

    /// Returns the latency of a cache line in cycles. A request that never completed, for example a write-back whose blade failed, gets the
    /// unloaded latency.
    fn latency(&self, found: &TraceWindows, completion: Option<Time>) -> f32 {
        let machine = &self.model.machine;
        let unloaded_ns = self.model.fabrics().far_ns[found.fabric];
        machine.cycles(completion.map_or(unloaded_ns, |time| machine.near_ns + time.as_ns_f64()))
    }

    fn core(&self, program: &Program, fabric: usize) -> Result<FarRequests, Error> {
        let far_ns = self.model.fabrics().far_ns[fabric];
        let lane = self.model.machine.lane(self.pages, far_ns, program.at_once);
        FarRequests::new(&self.model.machine.core, lane).map_err(failed)
    }
}

/// Converts the requests of a window for the simulator. A request that waits for a cache line also waits for the latency of the memory
/// itself.
fn with_memory(requests: &WindowRequests, machine: &MachineModel) -> LineWindow {
    let memory_ps = (machine.near_ns * 1000.0).round() as u64;
    let when = |after: After| Dependence {
        after: after.request,
        gap: Time::from_ps(after.gap_ps + if after.request.is_some() { memory_ps } else { 0 }),
    };
    let message = |one: &LineRequest| LineMessage {
        when: when(one.after),
        address: one.address,
        is_write_back: one.is_write_back,
    };
    LineWindow { requests: requests.requests.iter().map(message).collect(), end: when(requests.end) }
}

/// Returns the rank of each thread of a program by its number of instructions, the largest first. Programs that run one after another share
/// the threads of the trace: their threads of equal rank become one thread of the trace.
fn ranks(summary: &Summary) -> Vec<usize> {
    let mut order: Vec<usize> = (0..summary.threads.len()).collect();
    order.sort_by_key(|thread| std::cmp::Reverse(summary.threads[*thread].instructions));
    let mut ranks = vec![0; order.len()];
    for (rank, thread) in order.into_iter().enumerate() {
        ranks[thread] = rank;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::machine;
    use super::*;

    #[test]
    fn what_waits_for_a_line_waits_for_the_memory_too() {
        let request = |request: Option<u32>, gap_ps| LineRequest {
            after: After { request, gap_ps },
            address: 64,
            is_write_back: false,
        };
        let requests = WindowRequests {
            requests: vec![request(None, 5_000), request(Some(0), 7_000)],
            end: After { request: Some(1), gap_ps: 0 },
        };
        let window = with_memory(&requests, &machine());
        let gaps: Vec<u64> = window.requests.iter().map(|request| request.when.gap.as_ns()).collect();
        assert_eq!((gaps, window.end.gap.as_ns()), (vec![5, 107], 100));
        // A chain of requests on a network of 30 ns takes the time that the core model states for a latency of 130 ns.
        let trace = LineTrace::new(&[vec![window]]).unwrap();
        assert_eq!(trace.window_time_at(0, Time::from_ns(30)), Time::from_ns(5 + 130 + 7 + 130));
    }

    #[test]
    fn the_longest_thread_is_the_first_of_a_trace() {
        let thread =
            |instructions| unrack_lines::summary::ThreadSummary { instructions, ..Default::default() };
        let threads = [5, 100, 20].map(thread).into();
        let summary = Summary { threads, ..super::super::model::tests::summary(1, 0, 1) };
        assert_eq!(ranks(&summary), [2, 0, 1]);
    }
}
