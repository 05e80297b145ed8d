//! Runner of a grid. It reads the stored results of points from their folder. It runs all other points on threads, and
//! stores their results.

use crate::watch::{GridWatch, PointProgress};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use unrack_record::{KeptPoints, RecordError};

/// Point of a grid.
pub trait RunPoint: Sync {
    /// Result of a run, in the form in which it is stored.
    type Found: Serialize + DeserializeOwned + Send;
    type Error: From<RecordError> + Send;

    /// Returns the hash of the scenario and of the files that it names.
    fn scenario_hash(&self) -> &str;

    /// Returns the options of the run on which its result depends, in addition to the scenario.
    fn asked(&self) -> String;

    /// Runs the point.
    ///
    /// # Errors
    /// If the point cannot be run to its end.
    fn run(&self, share: &mut PointProgress<'_>) -> Result<Self::Found, Self::Error>;
}

impl<P: RunPoint> RunPoint for &P {
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

/// Returns the number of cores of the machine, which is the default number of threads of a grid.
pub fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Returns the results of all points, in their order. Results that `kept` holds are read; the other points run on
/// `threads` threads, and their results are then stored. The results depend neither on which of them were stored nor on
/// the number of threads. After an error, no further point starts.
///
/// # Errors
/// Returns the error of the first point, in the order of the grid, that could not be run or stored.
pub fn run<P: RunPoint>(
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

fn one<P: RunPoint>(point: &P, kept: &KeptPoints, watch: &impl GridWatch) -> Result<P::Found, P::Error> {
    let mut share = PointProgress::new(watch);
    // Meanwhile, an equal point of this grid, or another run of the grid, may have stored the result.
    if let Some(found) = kept.read(point.scenario_hash(), &point.asked()) {
        return Ok(found);
    }
    let found = point.run(&mut share)?;
    kept.write(point.scenario_hash(), &point.asked(), &found)?;
    Ok(found)
}

/// Calls `work` for each of these numbers, and returns the results in the order of the numbers. After an error, it
/// skips the remaining numbers.
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
