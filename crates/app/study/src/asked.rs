//! Results that a study requests from a run in addition to its summary.

use crate::error::StudyError;
use crate::nics;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use unrack_sim::observe::{LinkSamples, Peaks, Views};
use unrack_sim::summary::Stats;
use unrack_sim::{Excluded, Finished, Progress, Run, Setup, SetupError, Work};
use unrack_units::{Bytes, Time};

/// Additional results that a study requests. Each is added to the summary under its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExtraResults {
    /// Requests the mean slowdown of this share of the messages: those that finish first.
    pub first_finished: Option<f64>,
    /// Requests completion, slowdown and rate for these classes of messages by size.
    pub by_size: BTreeMap<String, SizeBounds>,
    /// Whether the use of NICs is requested ([`crate::nics`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nics: bool,
    /// Whether peaks are requested: the maximum of bytes at each port, of packets that a receiver held out of order, and of
    /// messages in flight.
    pub peaks: bool,
}

/// Range of message sizes of a class. Both bounds are exclusive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SizeBounds {
    pub above: Option<Bytes>,
    pub below: Option<Bytes>,
}

impl SizeBounds {
    fn hold(&self, bytes: u64) -> bool {
        self.above.is_none_or(|above| bytes > above.get())
            && self.below.is_none_or(|below| bytes < below.get())
    }
}

impl ExtraResults {
    /// Returns a text that is part of the key under which the results of a point are stored.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("plain numbers and texts")
    }

    /// Runs a setup. Returns the run, and the additional results that need an observer.
    ///
    /// # Errors
    /// [`SetupError`] as [`Setup::run`]: a parameter, the network or the work does not fit, or simulated time ends
    /// before the run does.
    pub fn run(
        &self,
        setup: &Setup,
        work: &Work,
        progress: impl FnMut(Progress),
    ) -> Result<(Finished, BTreeMap<String, Value>), SetupError> {
        if !self.peaks && !self.nics {
            return Ok((setup.run(work, progress)?, BTreeMap::new()));
        }
        let topology = &setup.network.topology;
        let mut watch = Views {
            peaks: self.peaks.then(|| Peaks::new(topology)),
            links: self.nics.then(|| LinkSamples::new(nics::EVERY)),
            ..Views::default()
        };
        let done = setup.watched(work, &mut watch, progress)?;
        let peaks = watch.peaks.map(|peaks| ("peaks".to_string(), of_peaks(&peaks, &done.run)));
        let links = watch.links.iter().filter_map(|links| nics::nic_use(links, topology, &done.run));
        let links = links.map(|found| ("nics".to_string(), found));
        let found = peaks.into_iter().chain(links).collect();
        Ok((done, found))
    }

    /// Returns the additional results that are computed from the messages of a finished run.
    pub fn of_messages(&self, run: &Run, excluded: Excluded) -> BTreeMap<String, Value> {
        let share = self.first_finished.map(|share| {
            let slowdown = first_finished(run, share);
            ("first_finished".to_string(), json!({ "share": share, "slowdown": slowdown }))
        });
        let sizes = (!self.by_size.is_empty()).then(|| {
            let of = |(name, sizes): (&String, &SizeBounds)| (name.clone(), by_size(run, excluded, sizes));
            ("by_size".to_string(), self.by_size.iter().map(of).collect())
        });
        share.into_iter().chain(sizes).collect()
    }

    /// Checks that the range of each class contains at least one size.
    ///
    /// # Errors
    /// [`StudyError::File`] if the range of a class is empty.
    pub fn check(&self, study: &str, grid: &str) -> Result<(), StudyError> {
        let none = |(name, sizes): (&String, &SizeBounds)| match (sizes.above, sizes.below) {
            (Some(above), Some(below)) if above.get().saturating_add(1) >= below.get() => Some(name.clone()),
            _ => None,
        };
        match self.by_size.iter().find_map(none) {
            Some(name) => Err(StudyError::File {
                study: study.into(),
                why: format!("`by_size.{name}` of the grid `{grid}` has no sizes"),
            }),
            None => Ok(()),
        }
    }
}

fn of_peaks(peaks: &Peaks, run: &Run) -> Value {
    let stats = |values: &mut dyn Iterator<Item = u64>| {
        Stats::from_values(values.map(|value| value as f64).collect())
    };
    let queues = stats(&mut peaks.queue_bytes());
    let held = stats(&mut peaks.reorder_packets().iter().copied());
    json!({ "queue_bytes": queues, "reorder_packets": held, "open_messages": most_open(run) })
}

/// Returns the maximum number of messages that were open at the same time, that is, submitted but not complete.
fn most_open(run: &Run) -> usize {
    let mut ends: Vec<Time> = run.outcomes.iter().filter_map(|outcome| outcome.completed()).collect();
    ends.sort_unstable();
    // Messages are sorted by their submission.
    let open = |(n, submitted): (usize, Time)| n + 1 - ends.partition_point(|end| *end <= submitted);
    run.outcomes.iter().map(|outcome| outcome.submitted).enumerate().map(open).max().unwrap_or(0)
}

/// Returns the mean slowdown of the `share` of all messages that finished first, which is the average of a run that is
/// stopped when they have finished.
fn first_finished(run: &Run, share: f64) -> Option<f64> {
    let ended = |row: &usize| run.outcomes[*row].completed().unwrap_or(Time::MAX);
    let mut rows: Vec<usize> = (0..run.outcomes.len()).collect();
    rows.sort_by_key(ended);
    rows.truncate((share * run.outcomes.len() as f64).round() as usize);
    let slowdowns: Vec<f64> = rows.into_iter().filter_map(|row| run.slowdown(row)).collect();
    (!slowdowns.is_empty()).then(|| slowdowns.iter().sum::<f64>() / slowdowns.len() as f64)
}

/// Returns the results of a class, over its messages that finished and do not belong to the warm-up or cool-down.
fn by_size(run: &Run, excluded: Excluded, sizes: &SizeBounds) -> Value {
    let all = run.messages.len();
    let last = all.saturating_sub(excluded.cool_down as usize);
    let rows = (excluded.warm_up as usize).min(last)..last;
    let rows: Vec<usize> = rows.filter(|row| sizes.hold(run.messages[*row].bytes)).collect();
    let stats = |of: &dyn Fn(usize) -> Option<f64>| {
        Stats::from_values(rows.iter().filter_map(|row| of(*row)).collect())
    };
    let took = |row: usize| Some(run.outcomes[row].completion()?.as_ns_f64());
    json!({
        "completion_ns": stats(&took),
        "slowdown": stats(&|row| run.slowdown(row)),
        "gbps": stats(&|row| Some(run.messages[row].bytes as f64 * 8.0 / took(row)?)),
    })
}
