//! Threads on cores: measurements that stay on one, and those that are made on several.

use super::spread::Spread;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores on which a measurement is made at most.
const MOST: usize = 8;

/// Keeps this thread on a core, where the kernel lets it.
pub(super) fn stay_on(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    // Without it the spread is larger, and the median as good.
    let _ = sched_setaffinity(None, &cores);
}

/// Measures on one core after the other, of those that this process may use, and returns the mean median, with the least and the
/// greatest value of all.
pub(super) fn mean_of_cores(measure: impl Fn() -> Spread + Sync) -> Spread {
    let on = |core: Option<usize>| {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                core.into_iter().for_each(stay_on);
                measure()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    };
    let all: Vec<Spread> = match allowed() {
        cores if cores.is_empty() => vec![on(None)],
        cores => cores.into_iter().map(|core| on(Some(core))).collect(),
    };
    Spread {
        min: all.iter().map(|spread| spread.min).fold(f64::INFINITY, f64::min),
        median: all.iter().map(|spread| spread.median).sum::<f64>() / all.len() as f64,
        max: all.iter().map(|spread| spread.max).fold(0.0, f64::max),
    }
}

/// Returns the cores that this process may use, but not more than [`MOST`], spread over all of them.
fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
    let step = cores.len().div_ceil(MOST).max(1);
    cores.into_iter().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn each_core_is_measured_in_its_turn() {
        let cores = Mutex::new(Vec::new());
        let spread = mean_of_cores(|| {
            let mut cores = cores.lock().unwrap();
            cores.push(rustix::thread::sched_getcpu());
            let value = cores.len() as f64;
            Spread { min: value - 0.5, median: value, max: value + 0.5 }
        });
        let cores = cores.into_inner().unwrap();
        assert_eq!(cores, allowed());
        let count = cores.len() as f64;
        assert_eq!(spread, Spread { min: 0.5, median: (count + 1.0) / 2.0, max: count + 0.5 });
    }
}
