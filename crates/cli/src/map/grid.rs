//! From what was measured at one local share to the slowdown at any latency and bandwidth.

use crate::runs::PAGE;
use crate::runs::line::STRAIGHT_R2;
use unrack_paging::fit;
use unrack_record::{Fit, MapLocal};
use unrack_units::{Rate, Time};

/// The axes of a map.
pub struct Grid {
    pub latencies: Vec<Time>,
    pub bandwidths: Vec<Rate>,
}

/// A loss that is uncertain by more than this part of the native run time is worth a warning.
const UNCERTAIN: f64 = 0.05;

impl Grid {
    /// `slowdown[latency][bandwidth]`.
    pub fn slowdowns(&self, native_s: f64, fit: &Fit, fetches: u64) -> Vec<Vec<f64>> {
        let cell = |latency: &Time, rate: &Rate| slowdown(native_s, fit, fetches, *latency, *rate);
        let row = |latency: &Time| self.bandwidths.iter().map(|rate| cell(latency, rate)).collect();
        self.latencies.iter().map(row).collect()
    }

    /// What to check before trusting the cells of one local share.
    pub fn doubts(&self, native_s: f64, local: &MapLocal) -> Vec<String> {
        let (name, fit) = (&local.local, &local.fit);
        let mut doubts = Vec::new();
        let longest = self.longest_ns();
        let [low, high] = fit::slowdown(native_s, fit, longest).ci95;
        if fit.r2 < STRAIGHT_R2 && high - low > UNCERTAIN {
            doubts.push(format!(
                "with {name} local the runs do not lie well on a line (R2 {:.2}): repeat on an idle machine, or \
                 with a larger --repeat",
                fit.r2
            ));
        }
        let injected = local.points.iter().map(|point| point.delay_ns).fold(0.0, f64::max);
        if longest > injected {
            doubts.push(format!(
                "with {name} local no fetch was delayed by more than {:.0} us: cells beyond follow from the \
                 line, not from a run",
                injected / 1e3
            ));
        }
        doubts
    }

    fn longest_ns(&self) -> f64 {
        let cells = self.latencies.iter().flat_map(|latency| {
            self.bandwidths.iter().map(|rate| (*latency + rate.transmit(PAGE)).as_ns_f64())
        });
        cells.fold(0.0, f64::max)
    }
}

/// By the waits on the critical path, each as long as a fetch alone; but pages come through one link, one
/// after the other, and no program is over before its last page has come.
fn slowdown(native_s: f64, fit: &Fit, fetches: u64, latency: Time, rate: Rate) -> f64 {
    let transmission = rate.transmit(PAGE);
    let by_waits = fit::slowdown(native_s, fit, (latency + transmission).as_ns_f64()).value;
    let by_link = fetches as f64 * transmission.as_secs_f64() / native_s;
    by_waits.max(by_link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(waits: f64, r2: f64) -> Fit {
        let waits_ci95 = [waits * 0.5, waits * 1.5];
        Fit { intercept_s: 1.0, waits, waits_ci95, r2, worst_residual: 0.0 }
    }

    fn grid() -> Grid {
        let latencies = vec![Time::from_us(1), Time::from_us(10)];
        Grid { latencies, bandwidths: vec![Rate::from_gbps(1), Rate::from_gbps(100)] }
    }

    #[test]
    fn a_cell_is_native_time_and_its_waits() {
        let cells = grid().slowdowns(2.0, &fit(100_000.0, 1.0), 100_000);
        assert!((cells[0][1] - (1.0 + 0.1 * 1.32768 / 2.0)).abs() < 1e-9, "{cells:?}");
        assert!((cells[1][0] - (1.0 + 0.1 * 42.768 / 2.0)).abs() < 1e-9, "{cells:?}");
    }

    #[test]
    fn threads_that_wait_together_still_share_the_link() {
        // Sixteen threads: a sixteenth of the fetches on the critical path.
        let cells = grid().slowdowns(1.0, &fit(10_000.0, 1.0), 160_000);
        assert!((cells[0][0] - 160_000.0 * 32.768e-6).abs() < 1e-9, "{cells:?}");
        assert!((cells[0][1] - (1.0 + 0.01 * 1.32768)).abs() < 1e-9, "{cells:?}");
    }

    #[test]
    fn doubts_are_told_where_they_matter() {
        let local = |waits, r2, delay_ns| MapLocal {
            local: "25%".into(),
            local_bytes: 0,
            fetches: 0,
            points: vec![crate::runs::line::point(
                delay_ns,
                &[crate::runs::line::Injected { wall_s: 1.0, fetches: 0, write_backs: 0 }],
            )],
            fit: fit(waits, r2),
            slowdown: vec![],
        };
        let doubts = |waits, r2, delay_ns| grid().doubts(1.0, &local(waits, r2, delay_ns)).join("; ");
        assert_eq!(doubts(10_000.0, 0.99, 60_000.0), "");
        assert_eq!(doubts(10.0, 0.1, 60_000.0), "", "hardly any waits: whatever the line, no loss");
        assert!(doubts(10_000.0, 0.5, 60_000.0).contains("25% local the runs do not lie well"));
        assert!(doubts(10_000.0, 0.99, 30_000.0).contains("delayed by more than 30 us"));
    }
}
