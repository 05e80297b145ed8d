//! Slowdown of each thread of a run, relative to the thread's time with all memory local.

use super::model::CyclesModel;
use super::threads::{OWN, ThreadCycles};
use super::windows::NEAR;
use unrack_lines::core::WindowSample;
use unrack_lines::summary::Summary;
use unrack_record::{CurvePoint, Interval, Stated, ThreadSlowdown, Warning};

/// Maximum number of threads that are listed.
const MOST: usize = 100;

/// Returns the threads that take longest with remote memory, longest first.
pub(super) fn slowdowns(model: &CyclesModel, records: &[&Summary]) -> Vec<ThreadSlowdown> {
    let decisive = model.curves[0].far_ns.len() - 1;
    let time_s = |thread: &&ThreadCycles| thread.far_s(records, &model.machine, decisive).value;
    let mut longest: Vec<&ThreadCycles> = model.cycles.iter().collect();
    longest.sort_by(|a, b| time_s(b).total_cmp(&time_s(a)));
    longest.into_iter().take(MOST).map(|thread| slowdown(model, records, thread)).collect()
}

fn slowdown(model: &CyclesModel, records: &[&Summary], thread: &ThreadCycles) -> ThreadSlowdown {
    let summary = records[thread.record];
    let counted = summary.threads.iter().find(|counted| counted.thread == thread.thread);
    let point = |(point, latency_ns): (usize, &f64)| CurvePoint {
        latency_ns: *latency_ns,
        slowdown: at(model, records, thread, point),
    };
    let near_s = thread.near_s(records, &model.machine).interval();
    ThreadSlowdown {
        program: summary.program.clone(),
        pid: summary.pid,
        thread: thread.thread,
        instructions: thread.instructions,
        misses: counted.map_or(0, |counted| counted.caches.misses()),
        windows: thread.windows as u64,
        near_s: if thread.has_own() { Stated::Known(near_s) } else { Stated::withheld(few(thread)) },
        curve: model.curves[0].far_ns.iter().enumerate().map(point).collect(),
    }
}

/// Returns the slowdown of a thread at a point of the requested curve. The slowdown of the thread's recorded windows applies only to its
/// time outside the kernel.
fn at(model: &CyclesModel, records: &[&Summary], thread: &ThreadCycles, point: usize) -> Stated {
    let windows = model.windows_of(thread.record, thread.thread);
    let ratio = WindowSample::new(windows).slowdown(NEAR + 1 + point, NEAR).ok().filter(|_| thread.has_own());
    let Some(ratio) = ratio else { return Stated::withheld(few(thread)) };
    let (user_s, near_s) =
        (thread.user_s(&model.machine).value, thread.near_s(records, &model.machine).value);
    let part = if near_s > 0.0 { user_s / near_s } else { 1.0 };
    let whole = |ratio: f64| 1.0 + (ratio - 1.0) * part;
    let (low, high) = (whole(ratio.value - ratio.half), whole(ratio.value + ratio.half));
    Stated::Known(Interval { value: Some(whole(ratio.value)), low, high: Some(high) })
}

fn few(thread: &ThreadCycles) -> Warning {
    let text = format!("the thread has {} recorded windows, of at least {OWN}", thread.windows);
    Warning::new("few-windows", text)
}
