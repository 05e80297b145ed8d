//! Slowdowns at any latency and bandwidth, computed from the measurements at one local share.

use crate::runs::conclusion::Conclusion;
use crate::runs::task::PAGE;
use unrack_paging::fit;
use unrack_record::{Fit, MapLocal, Warning};
use unrack_units::{Rate, Time};

/// Axes of a map.
pub(super) struct MapGrid {
    pub latencies: Vec<Time>,
    pub bandwidths: Vec<Rate>,
}

/// Slowdowns and their 95 % intervals: `[latency][bandwidth]`.
pub(super) type Cells = (Vec<Vec<f64>>, Vec<Vec<[f64; 2]>>);

impl MapGrid {
    /// Returns the slowdown in every cell.
    ///
    /// # Errors
    /// If the slowdown at the longest latency and the lowest rate is too uncertain to be stated. Then no cell of the share is drawn,
    /// because half a picture would suggest that the other half is reliable.
    pub(super) fn slowdowns(
        &self,
        native_s: f64,
        conclusion: &Conclusion,
        fetches: u64,
    ) -> Result<Cells, Warning> {
        conclusion.slowdown(self.longest_ns())?;
        let fit = conclusion.line().map_err(Clone::clone)?;
        let cell = |latency: &Time, rate: &Rate| slowdown(native_s, fit, fetches, *latency, *rate);
        let row = |latency: &Time| self.bandwidths.iter().map(|rate| cell(latency, rate)).unzip();
        Ok(self.latencies.iter().map(row).unzip())
    }

    /// Returns the warnings that a reader must consider before relying on the cells of one local share.
    pub(super) fn doubts(&self, local: &MapLocal) -> Vec<Warning> {
        let (name, longest) = (&local.local, self.longest_ns());
        let injected = local.points.iter().map(|point| point.delay_ns).fold(0.0, f64::max);
        let is_beyond = local.withheld.is_none() && longest > injected;
        let beyond = is_beyond.then(|| {
            let text = format!(
                "with {name} local no fetch was delayed by more than {:.0} us: cells beyond follow from the \
                 line, not from a run",
                injected / 1e3
            );
            Warning::new("beyond-measured", text)
        });
        beyond.into_iter().collect()
    }

    /// Returns the longest delay of a cell, including the transmission of the page.
    pub(super) fn longest_ns(&self) -> f64 {
        let cells = self.latencies.iter().flat_map(|latency| {
            self.bandwidths.iter().map(|rate| (*latency + rate.transmit(PAGE)).as_ns_f64())
        });
        cells.fold(0.0, f64::max)
    }
}

/// Returns the slowdown of one cell and its interval. The slowdown follows from the waits on the critical path, each as long as a single
/// fetch; it is at least the time in which all pages cross the link one after another.
fn slowdown(native_s: f64, fit: &Fit, fetches: u64, latency: Time, rate: Rate) -> (f64, [f64; 2]) {
    let transmission = rate.transmit(PAGE);
    let by_waits = fit::slowdown(fit, (latency + transmission).as_ns_f64());
    let by_link = fetches as f64 * transmission.as_secs_f64() / native_s;
    (by_waits.value.max(by_link), by_waits.ci95.map(|end| end.max(by_link)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fit of a program whose native run takes `native_s`.
    fn fit(waits: f64, native_s: f64, spread: f64) -> Fit {
        let around = |value: f64| [value * (1.0 - spread), value * (1.0 + spread)];
        Fit {
            intercept_s: 1.0,
            waits,
            waits_ci95: around(waits),
            waits_per_s: waits / native_s,
            waits_per_s_ci95: around(waits / native_s),
            r2: 1.0,
            worst_residual: 0.0,
        }
    }

    fn sure(fit: Fit) -> Conclusion {
        Conclusion { points: Vec::new(), fit: Some(fit), withheld: None, rough: None }
    }

    fn grid() -> MapGrid {
        let latencies = vec![Time::from_us(1), Time::from_us(10)];
        MapGrid { latencies, bandwidths: vec![Rate::from_gbps(1), Rate::from_gbps(100)] }
    }

    #[test]
    fn a_cell_is_native_time_and_its_waits() {
        let (cells, intervals) = grid().slowdowns(2.0, &sure(fit(100_000.0, 2.0, 0.1)), 100_000).unwrap();
        assert!((cells[0][1] - (1.0 + 0.1 * 1.32768 / 2.0)).abs() < 1e-9, "{cells:?}");
        assert!((cells[1][0] - (1.0 + 0.1 * 42.768 / 2.0)).abs() < 1e-9, "{cells:?}");
        assert!((intervals[0][1][1] - (1.0 + 0.11 * 1.32768 / 2.0)).abs() < 1e-9, "{intervals:?}");
    }

    #[test]
    fn threads_that_wait_together_still_share_the_link() {
        // With sixteen threads, a sixteenth of the fetches is on the critical path.
        let (cells, _) = grid().slowdowns(1.0, &sure(fit(10_000.0, 1.0, 0.1)), 160_000).unwrap();
        assert!((cells[0][0] - 160_000.0 * 32.768e-6).abs() < 1e-9, "{cells:?}");
        assert!((cells[0][1] - (1.0 + 0.01 * 1.32768)).abs() < 1e-9, "{cells:?}");
    }

    #[test]
    fn a_share_whose_loss_is_uncertain_is_withheld_whole() {
        let cells = |waits, spread| grid().slowdowns(1.0, &sure(fit(waits, 1.0, spread)), 0);
        assert!(cells(10_000.0, 0.3).is_ok());
        assert_eq!(cells(10_000.0, 0.5).unwrap_err().key, "wide-interval");
        assert!(cells(10.0, 5.0).is_ok(), "hardly any waits: whatever the line, no loss");
        let rough = Some(Warning::new("rough", "others ran"));
        let rough = Conclusion { rough, ..sure(fit(10_000.0, 1.0, 0.5)) };
        assert!(grid().slowdowns(1.0, &rough, 0).is_ok(), "a rough share is drawn with its wide intervals");
    }

    #[test]
    fn cells_beyond_what_was_measured_are_told() {
        let point = |delay_ns| unrack_record::InjectionPoint {
            delay_ns,
            runs: crate::runs::task::with_median(vec![1.0]),
            fetches: 0,
            write_backs: 0,
        };
        let local = |delay_ns| MapLocal {
            local: "25%".into(),
            local_bytes: 0,
            fetches: 0,
            points: vec![point(delay_ns)],
            fit: None,
            withheld: None,
            rough: None,
            slowdown: None,
            slowdown_ci95: None,
        };
        assert_eq!(grid().doubts(&local(60_000.0)), []);
        assert!(grid().doubts(&local(30_000.0))[0].text.contains("delayed by more than 30 us"));
        let why = Some(Warning::new("disturbed", "it was"));
        assert_eq!(grid().doubts(&MapLocal { withheld: why, ..local(30_000.0) }), [], "no cells, no doubts");
    }
}
