//! What a network must offer this program, and how much local memory would do instead.

use super::measured::Measured;
use unrack_paging::fit;
use unrack_record::Requirement;

/// Losses that people ask about.
const LOSSES: [f64; 3] = [0.01, 0.05, 0.10];
/// How much local memory is asked for a fetch of 5 us, DDC's target for a datacenter (DDC §3.2).
const AT_FETCH_US: f64 = 5.0;

pub fn of(measured: &Measured) -> Vec<Requirement> {
    let of_loss = |loss| {
        let delay = fit::largest_delay_ns(measured.native.median_s, &measured.fit, loss);
        Requirement {
            loss,
            max_fetch_us: delay.map(|delay| delay.value / 1e3),
            min_local: smallest_local(measured, loss),
            at_fetch_us: Some(AT_FETCH_US),
        }
    };
    LOSSES.map(of_loss).to_vec()
}

/// Waits on the critical path are taken to fall as fetches do from one local share to the next.
fn smallest_local(measured: &Measured, loss: f64) -> Option<f64> {
    let fetches = measured.captured.tally.fetches.max(1) as f64;
    let waits_per_fetch = measured.fit.waits.max(0.0) / fetches;
    let loss_with = |fetches: f64| waits_per_fetch * fetches * AT_FETCH_US / 1e6 / measured.native.median_s;
    let asked = measured.local.get() as f64 / measured.footprint.get().max(1) as f64;
    let mut shares = vec![(asked, loss_with(fetches))];
    shares.extend(measured.other_shares.iter().map(|(share, fetches)| (*share, loss_with(*fetches as f64))));
    shares.push((1.0, 0.0));
    crossing(&shares, loss)
}

/// The first share, by straight lines between those measured, at which the loss is at most `loss`.
/// `None` if it is so from the beginning: less might do.
fn crossing(shares: &[(f64, f64)], loss: f64) -> Option<f64> {
    let pair = shares.windows(2).find(|pair| pair[0].1 > loss && pair[1].1 <= loss)?;
    let [(low, high_loss), (high, low_loss)] = [pair[0], pair[1]];
    Some(low + (high - low) * (high_loss - loss) / (high_loss - low_loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_lies_between_those_measured() {
        let shares = [(0.25, 0.30), (0.5, 0.10), (0.75, 0.0), (1.0, 0.0)];
        assert_eq!(crossing(&shares, 0.05), Some(0.625));
        assert_eq!(crossing(&shares, 0.5), None);
    }
}
