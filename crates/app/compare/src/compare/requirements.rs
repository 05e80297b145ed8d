//! Requirements of a program: the fetch time that a network must offer, whether any network can offer it, and how much local memory would
//! suffice instead.

use super::measured::MeasuredRuns;
use crate::runs::task::{PAGE, TaskResult};
use unrack_paging::quality;
use unrack_record::{Fit, Interval, Requirement, Stated, Warning};
use unrack_units::Rate;

/// Relative losses of performance for which requirements are stated.
const LOSSES: [f64; 3] = [0.01, 0.05, 0.10];
/// Fetch time in us for which the sufficient local memory is stated: DDC's target for a datacenter (DDC §3.2).
const AT_FETCH_US: f64 = 5.0;
/// Error factor of the number of fetches that one run counts at another local share. Where a working set just fits into local memory, the
/// number depends on which pages are evicted first: eight runs of the NumPy example with 60 % local fetched 1,900 to 5,100 pages.
const COUNTED: f64 = 2.0;
/// Largest ratio of the ends of an interval of local shares. A wider interval is no basis for a choice: see [`quality`].
const WIDE: f64 = 2.0;
/// Rate of the fastest Ethernet that is being standardized (IEEE P802.3dj).
const FASTEST: Rate = Rate::from_gbps(1_600);

/// Returns the requirements for each loss.
pub(super) fn from_measured(measured: &MeasuredRuns, rate: Rate) -> Vec<Requirement> {
    LOSSES.map(|loss| requirement(measured, rate, loss)).to_vec()
}

fn requirement(measured: &MeasuredRuns, rate: Rate, loss: f64) -> Requirement {
    let (max_fetch_us, min_local) = match measured.conclusion.line() {
        Ok(fit) => needs(measured, fit, loss),
        Err(why) => (Stated::withheld(why.clone()), Some(Stated::withheld(why.clone()))),
    };
    let feasible = max_fetch_us.known().and_then(|interval| feasible(interval, page_us(rate)));
    let value = max_fetch_us.known().and_then(|interval| interval.value);
    let feasible_rate_bps = value.filter(|_| feasible == Some(false)).and_then(feasible_rate_bps);
    Requirement { loss, max_fetch_us, min_local, at_fetch_us: Some(AT_FETCH_US), feasible, feasible_rate_bps }
}

fn needs(measured: &MeasuredRuns, fit: &Fit, loss: f64) -> (Stated, Option<Stated>) {
    let longest_ns = measured.conclusion.points.iter().map(|point| point.delay_ns).fold(0.0, f64::max);
    let need = quality::need(fit, loss, longest_ns);
    let min_local = match need.reason() {
        Some(why) => Some(Stated::withheld(why.clone())),
        None => smallest_local(&shares(measured), fit, loss),
    };
    (need, min_local)
}

/// Returns the transmission time of a page in us.
pub(super) fn page_us(rate: Rate) -> f64 {
    rate.transmit(PAGE).as_us_f64()
}

/// Returns whether the transmission of a page takes at most the required time; `None` if the interval of the required time contains the
/// transmission time.
fn feasible(need: &Interval, page_us: f64) -> Option<bool> {
    match need.high {
        Some(high) if high < page_us => Some(false),
        _ => (need.low >= page_us).then_some(true),
    }
}

/// Returns the rate, in whole Gb/s, at which the transmission of a page takes at most `need_us`; `None` if it is above [`FASTEST`].
fn feasible_rate_bps(need_us: f64) -> Option<u64> {
    let gbps = (PAGE.get() as f64 * 8.0 / need_us / 1e3).ceil();
    (gbps <= FASTEST.as_bps() as f64 / 1e9).then_some(gbps as u64 * 1_000_000_000)
}

/// A local share, and the number of fetches of the program at that share.
struct ShareFetches {
    share: f64,
    /// Fetches relative to those at the requested share.
    ratio: f64,
    /// Error factor of `ratio`.
    within: f64,
}

fn shares(measured: &MeasuredRuns) -> Vec<ShareFetches> {
    let captured = measured.captured.map_or(1, |TaskResult { fetches, .. }| fetches.max(1)) as f64;
    let asked = measured.local.get() as f64 / measured.footprint.get().max(1) as f64;
    let other = |(share, fetches): &(f64, u64)| ShareFetches {
        share: *share,
        ratio: *fetches as f64 / captured,
        within: COUNTED,
    };
    let mut shares = vec![ShareFetches { share: asked, ratio: 1.0, within: 1.0 }];
    shares.extend(measured.other_shares.iter().map(other));
    shares.push(ShareFetches { share: 1.0, ratio: 0.0, within: 1.0 });
    shares
}

/// Returns the smallest local share, with its interval, at which the program loses at most `loss`. Returns `None` if the first share
/// already meets that.
///
/// The waits on the critical path are assumed to decrease like the fetches from one local share to the next. The curve between two shares
/// is unknown, so the interval ends at measured shares: one that is certainly too small, and one that certainly suffices. The value is
/// interpolated linearly between them.
fn smallest_local(shares: &[ShareFetches], fit: &Fit, loss: f64) -> Option<Stated> {
    let [few, many] = fit.waits_per_s_ci95;
    let lost = |waits_per_s: f64, ratio: f64| waits_per_s.max(0.0) * ratio * AT_FETCH_US / 1e6;
    let is_too_small = |at: &&ShareFetches| lost(few, at.ratio / at.within) > loss;
    let suffices = |at: &&ShareFetches| lost(many, at.ratio * at.within) <= loss;
    if suffices(&&shares[0]) {
        return None;
    }
    let low = shares.iter().rfind(is_too_small).unwrap_or(&shares[0]).share;
    let high = shares.iter().rev().take_while(suffices).last().map_or(1.0, |at| at.share);
    let losses: Vec<_> = shares.iter().map(|at| (at.share, lost(fit.waits_per_s, at.ratio))).collect();
    let value = crossing(&losses, loss).unwrap_or(shares[0].share).clamp(low, high);
    if high <= WIDE * low {
        return Some(Stated::Known(Interval { value: Some(value), low, high: Some(high) }));
    }
    let text = format!(
        "the runs leave open any share from {:.0} % to {:.0} %: run it again with a larger --local",
        low * 100.0,
        high * 100.0
    );
    Some(Stated::withheld(Warning::new("wide-interval", text)))
}

/// Returns the first local share, interpolated linearly between measured ones, at which the loss is at most `loss`. Returns `None` if the
/// first measured share already suffices, because a smaller share might suffice, too.
fn crossing(shares: &[(f64, f64)], loss: f64) -> Option<f64> {
    let pair = shares.windows(2).find(|pair| pair[0].1 > loss && pair[1].1 <= loss)?;
    let [(low, high_loss), (high, low_loss)] = [pair[0], pair[1]];
    Some(low + (high - low) * (high_loss - loss) / (high_loss - low_loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(waits_per_s: f64, waits_per_s_ci95: [f64; 2]) -> Fit {
        let (waits, waits_ci95) = (waits_per_s, waits_per_s_ci95);
        Fit {
            intercept_s: 1.0,
            waits,
            waits_ci95,
            waits_per_s,
            waits_per_s_ci95,
            r2: 1.0,
            worst_residual: 0.0,
        }
    }

    fn fetched(counts: &[(f64, f64)]) -> Vec<ShareFetches> {
        let first = counts[0].1;
        let at = |(n, (share, fetches)): (usize, &(f64, f64))| {
            let within = if n == 0 || *fetches == 0.0 { 1.0 } else { COUNTED };
            ShareFetches { share: *share, ratio: fetches / first, within }
        };
        counts.iter().enumerate().map(at).collect()
    }

    #[test]
    fn the_share_lies_between_those_measured() {
        let shares = [(0.25, 0.30), (0.5, 0.10), (0.75, 0.0), (1.0, 0.0)];
        assert_eq!(crossing(&shares, 0.05), Some(0.625));
        assert_eq!(crossing(&shares, 0.5), None);
    }

    #[test]
    fn the_interval_ends_at_shares_that_surely_lose_and_surely_do_not() {
        // The NumPy example: 430,000 waits per second of native run time.
        let (line, counts) =
            (fit(430_000.0, [380_000.0, 480_000.0]), [55_000.0, 26_000.0, 2_000.0, 500.0, 0.0]);
        let shares: Vec<_> = [0.25, 0.4, 0.6, 0.8, 1.0].into_iter().zip(counts).collect();
        let ends = |loss| {
            let stated = smallest_local(&fetched(&shares), &line, loss).unwrap();
            stated.known().map(|interval| (interval.low, interval.value.unwrap(), interval.high.unwrap()))
        };
        let (low, value, high) = ends(0.10).unwrap();
        assert!((low, high) == (0.4, 0.6) || (low, high) == (0.4, 0.8), "{low} {high}");
        assert!((0.55..0.6).contains(&value), "{value}");
        let (low, value, high) = ends(0.01).unwrap();
        assert!(low == 0.6 && high == 1.0 && (0.8..0.95).contains(&value), "{low} {value} {high}");
        assert_eq!(smallest_local(&fetched(&shares), &line, 5.0), None, "the share asked for does");
    }

    #[test]
    fn a_count_that_may_be_twice_as_many_widens_the_interval() {
        let line = fit(100_000.0, [90_000.0, 110_000.0]);
        let at = |fetches| {
            let shares = fetched(&[(0.4, 10_000.0), (0.6, fetches), (0.8, 10.0), (1.0, 0.0)]);
            let stated = smallest_local(&shares, &line, 0.10).unwrap();
            stated.known().map(|interval| (interval.low, interval.high.unwrap())).unwrap()
        };
        // A loss of 10 % is 2,000 fetches of 5 us.
        assert_eq!((at(500.0), at(1_900.0), at(6_000.0)), ((0.4, 0.6), (0.4, 0.8), (0.6, 0.8)));
    }

    #[test]
    fn shares_that_leave_everything_open_are_withheld() {
        let shares = fetched(&[(0.25, 10_000.0), (1.0, 0.0)]);
        let stated = smallest_local(&shares, &fit(1e5, [1e5, 1e5]), 0.05).unwrap();
        assert!(stated.reason().unwrap().text.contains("from 25 % to 100 %"), "{stated:?}");
    }

    #[test]
    fn no_link_is_asked_for_what_its_bits_alone_exceed() {
        let page = page_us(Rate::from_gbps(100));
        assert_eq!(page, 0.32768);
        let of = |low, high| feasible(&Interval { value: None, low, high }, page);
        assert_eq!(of(0.030, Some(0.040)), Some(false), "33 ns, where the bits take 328");
        assert_eq!(of(0.4, Some(0.5)), Some(true));
        assert_eq!(of(0.3, Some(0.4)), None);
        assert_eq!((of(500.0, None), of(0.1, None)), (Some(true), None));
        assert_eq!(feasible_rate_bps(0.116), Some(283_000_000_000));
        assert_eq!(feasible_rate_bps(0.02048), Some(1_600_000_000_000));
        assert_eq!(feasible_rate_bps(0.02), None, "no link of any known rate");
    }
}
