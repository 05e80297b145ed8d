//! Runner of a grid: points that are kept are taken from their folder, the others run on threads and are kept.

use crate::watch::{GridWatch, PointProgress};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use unrack_record::{KeptPoints, RecordError};

/// Point of a grid.
pub trait Point: Sync {
    /// Result of a run, as it is kept.
    type Found: Serialize + DeserializeOwned + Send;
    type Error: From<RecordError> + Send;

    /// Returns the hash of the scenario and of the files that it names.
    fn scenario_hash(&self) -> &str;

    /// Returns what is asked of the run beside the scenario, and changes its result.
    fn asked(&self) -> String;

    /// Runs the point.
    ///
    /// # Errors
    /// If it cannot be run to its end.
    fn run(&self, share: &mut PointProgress<'_>) -> Result<Self::Found, Self::Error>;
}

impl<P: Point> Point for &P {
    type Found = P::Found;
    type Error = P::Error;

    fn scenario_hash(&self) -> &str {
        (**self).scenario_hash()
    }

    fn asked(&self) -> String {
        (**self).asked()
    }

    fn run(&self, share: &mut PointProgress<'_>) -> Result<P::Found, P::Error> {
        (**self).run(share)
    }
}

/// Returns the machine's number of cores: the number of threads that a grid runs on unless told otherwise.
pub fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Returns the results of all points, in their order: those that `kept` has, and those of the others, which are run on
/// `threads` threads and then kept. The results depend on neither. After an error no further point starts.
///
/// # Errors
/// That of the first point, in the order of the grid, that could not be run or kept.
pub fn run<P: Point>(
    points: &[P],
    kept: &KeptPoints,
    threads: NonZeroUsize,
    watch: &impl GridWatch,
) -> Result<Vec<P::Found>, P::Error> {
    let mut found: Vec<Option<P::Found>> =
        points.iter().map(|point| kept.read(point.scenario_hash(), &point.asked())).collect();
    let missing: Vec<usize> = (0..found.len()).filter(|n| found[*n].is_none()).collect();
    watch.begin(found.len() - missing.len(), found.len());
    for (n, result) in on_threads(&missing, threads, |n| one(&points[n], kept, watch)) {
        found[n] = Some(result?);
    }
    Ok(found.into_iter().map(|found| found.expect("every point was run")).collect())
}

fn one<P: Point>(point: &P, kept: &KeptPoints, watch: &impl GridWatch) -> Result<P::Found, P::Error> {
    let mut share = PointProgress::new(watch);
    // An equal point of this grid, or another run of it, may have been kept meanwhile.
    if let Some(found) = kept.read(point.scenario_hash(), &point.asked()) {
        return Ok(found);
    }
    let found = point.run(&mut share)?;
    kept.write(point.scenario_hash(), &point.asked(), &found)?;
    Ok(found)
}

/// Calls `work` for each of these numbers, and returns what it returned, in their order. After an error, the rest is
/// left out.
fn on_threads<T: Send, E: Send>(
    numbers: &[usize],
    threads: NonZeroUsize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Vec<(usize, Result<T, E>)> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(numbers.len())));
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(numbers.len()) {
            scope.spawn(|| {
                while let Some(&n) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = work(n);
                    if result.is_err() {
                        next.store(numbers.len(), Ordering::Relaxed);
                    }
                    done.lock().expect("no thread panics with it").push((n, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panics with it");
    done.sort_unstable_by_key(|(n, _)| *n);
    done
}

#[cfg(test)]
mod tests;
