//! Delay of a page fetch: either a constant latency, or completion times drawn from those of a simulated fabric.

use crate::PagingError;
use std::path::Path;
use unrack_record::completions::{self, Kind};
use unrack_units::{Bytes, Rate, Time};

/// Maximum number of samples that are kept, because more samples add no information.
const MOST_SAMPLES: usize = 1_000_000;
const PAGE: Bytes = Bytes::new(crate::proc::PAGE);

/// Delay of a page fetch.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchDelay {
    pub(crate) latency: Time,
    /// Samples of whole completion times, in picoseconds, including transmission. Empty if the delay is constant.
    pub(crate) samples: Vec<u64>,
    pub(crate) bandwidth: Rate,
}

impl FetchDelay {
    /// Makes a constant delay. `latency` is the time of a fetch without the transmission of its page.
    pub fn constant(latency: Time, bandwidth: Rate) -> FetchDelay {
        FetchDelay { latency, samples: Vec::new(), bandwidth }
    }

    /// Makes a delay that is drawn from the fetches of a `completions.parquet`. Pages queue at the rate of that network's links, unless
    /// `bandwidth` gives another rate.
    ///
    /// # Errors
    /// [`PagingError::Usage`] if the file cannot be read as completions, or contains no fetch.
    pub fn drawn(path: &Path, bandwidth: Option<Rate>) -> Result<FetchDelay, PagingError> {
        let (meta, rows) = completions::read(path).map_err(|why| PagingError::Usage(why.to_string()))?;
        let fetches = rows.iter().filter(|row| row.kind == Kind::Fetch);
        let all: Vec<u64> = fetches.map(|row| row.completion_ps).collect();
        if all.is_empty() {
            let path = path.display();
            return Err(PagingError::Usage(format!(
                "{path} has no fetch to draw a delay from: use the completions of \
            a run with fetches"
            )));
        }
        let bandwidth = bandwidth.unwrap_or(Rate::from_bps(meta.link_rate_bps));
        Ok(FetchDelay { latency: Time::ZERO, samples: thinned(all), bandwidth })
    }

    /// Returns the latency without transmission; zero if the delay is drawn.
    pub fn latency(&self) -> Time {
        self.latency
    }

    /// Returns the rate at which pages queue.
    pub fn bandwidth(&self) -> Rate {
        self.bandwidth
    }

    /// Returns the mean total delay of a single fetch, in ns.
    pub fn mean_ns(&self) -> f64 {
        match self.samples.len() {
            0 => self.latency.as_ns_f64() + self.transmission_ns(),
            n => self.samples.iter().map(|ps| *ps as f64).sum::<f64>() / n as f64 / 1e3,
        }
    }

    fn transmission_ns(&self) -> f64 {
        match self.bandwidth.as_bps() {
            0 => 0.0,
            _ => self.bandwidth.transmit(PAGE).as_ns_f64(),
        }
    }
}

/// Reduces the samples to [`MOST_SAMPLES`]: sorts them and takes every n-th, which keeps their distribution.
fn thinned(mut all: Vec<u64>) -> Vec<u64> {
    if all.len() <= MOST_SAMPLES {
        return all;
    }
    all.sort_unstable();
    let pick = |n: usize| all[(2 * n + 1) * all.len() / (2 * MOST_SAMPLES)];
    (0..MOST_SAMPLES).map(pick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::ScratchFolder;

    #[test]
    fn a_constant_delay_is_latency_and_transmission() {
        let delay = FetchDelay::constant(Time::from_us(3), Rate::from_gbps(100));
        assert_eq!(delay.mean_ns(), 3_000.0 + 327.68);
    }

    #[test]
    fn fetches_are_drawn_and_write_backs_are_not() {
        let folder = ScratchFolder::fast().unwrap();
        let path = folder.path("completions.parquet");
        let mut writer = completions::Writer::create(&path).unwrap();
        for (kind, completion_ps) in [(Kind::Fetch, 2_000), (Kind::WriteBack, 9_000), (Kind::Fetch, 4_000)] {
            writer.push(completions::Row { kind, bytes: 4096, completion_ps, ideal_ps: 1_000 }).unwrap();
        }
        let meta = completions::Meta { fabric: "edm".into(), link_rate_bps: 25_000_000_000 };
        writer.finish(&meta).unwrap();
        let delay = FetchDelay::drawn(&path, None).unwrap();
        assert_eq!((delay.samples.as_slice(), delay.bandwidth), (&[2_000, 4_000][..], Rate::from_gbps(25)));
        assert_eq!(delay.mean_ns(), 3.0);
        let other = FetchDelay::drawn(&path, Some(Rate::from_gbps(1))).unwrap();
        assert_eq!(other.bandwidth, Rate::from_gbps(1));
    }

    #[test]
    fn what_is_no_such_table_is_bad_usage() {
        let folder = ScratchFolder::fast().unwrap();
        std::fs::write(folder.path("text"), "not a table").unwrap();
        for name in ["text", "absent"] {
            assert!(matches!(FetchDelay::drawn(&folder.path(name), None), Err(PagingError::Usage(_))));
        }
    }

    #[test]
    fn thinning_keeps_the_distribution() {
        let all: Vec<u64> = (0..3 * MOST_SAMPLES as u64).rev().collect();
        let few = thinned(all);
        assert_eq!(few.len(), MOST_SAMPLES);
        assert_eq!(few[..3], [1, 4, 7]);
        assert_eq!(thinned(vec![5, 3]), [5, 3]);
    }
}
