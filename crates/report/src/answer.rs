//! The question that a run answers, and its answer in one sentence.

use unrack_record::{Comparison, FabricResult, Fit, Requirement, SlowdownMap};

use crate::words::{bytes, count, listed, nanoseconds, percent, program, rate, ratio, seconds, share, short};

/// What the reader came to ask.
pub(crate) fn question(command: &[String]) -> String {
    format!("What would disaggregated memory do to {}?", program(command))
}

/// "With 25% of its 256 MiB local, sort would be ..."
pub(crate) fn comparison(c: &Comparison) -> String {
    let mut text = format!("With {} of its {} in local memory, ", share(&c.local), bytes(c.footprint_bytes));
    let networks: Vec<_> = c.fabrics.iter().filter(|f| f.fabric != "ideal" || c.fabrics.len() == 1).collect();
    text += program(&c.command);
    text += &match networks[..] {
        [] => " was run at several delays, but on no fabric.".into(),
        _ => format!(" would be {}.", listed(&networks.iter().map(|f| loss_on(f)).collect::<Vec<_>>())),
    };
    if let Some((loss, us)) = c.requirements.iter().find_map(|r| Some((r.loss, r.max_fetch_us?))) {
        let time = nanoseconds(us * 1e3);
        text +=
            &format!(" To lose at most {}, a page fetch may take at most {time} on average.", percent(loss));
    }
    text
}

fn loss_on(fabric: &FabricResult) -> String {
    let text = format!("{} on {}", loss(fabric.slowdown), fabric.fabric);
    let (estimate, [_, most]) = (fabric.slowdown - 1.0, fabric.slowdown_ci95.map(|value| value - 1.0));
    // An interval that reaches beyond twice the estimate belongs into the same breath.
    match most > (2.0 * estimate).max(LITTLE) {
        true => format!("{text} (at most {})", loss(1.0 + most)),
        false => text,
    }
}

/// A loss that needs no remark.
const LITTLE: f64 = 0.01;

/// A slowdown in words.
fn loss(slowdown: f64) -> String {
    match slowdown {
        s if s >= 2.0 => format!("{} times as slow", short(s)),
        s if s >= 1.0005 => format!("{} slower", percent(((s - 1.0) * 1000.0).round() / 1000.0)),
        _ => "no slower".into(),
    }
}

/// What the reader of a map came to ask.
pub(crate) fn map_question(command: &[String]) -> String {
    format!("Which latency, bandwidth and local share does {} need?", program(command))
}

/// "At 5 µs and 40 Gb/s ..." over the local shares of a map.
pub(crate) fn map(map: &SlowdownMap) -> String {
    let (latency, bandwidth) = reference(map);
    let one = |local: &unrack_record::MapLocal| {
        format!("{} with {} local", loss(local.slowdown[latency][bandwidth]), share(&local.local))
    };
    format!(
        "At {} and {}, {} would be {}.",
        nanoseconds(map.latencies_ns[latency]),
        rate(map.bandwidths_bps[bandwidth]),
        program(&map.command),
        listed(&map.locals.iter().map(one).collect::<Vec<_>>())
    )
}

/// The latency and bandwidth of the map to speak of: the nearest to those that DDC §3 holds fixed.
pub(crate) fn reference(map: &SlowdownMap) -> (usize, usize) {
    let latency = nearest(map.latencies_ns.iter().copied(), 5_000.0);
    (latency, nearest(map.bandwidths_bps.iter().map(|bps| *bps as f64), 40e9))
}

/// Index of the value nearest to `wanted`, by ratio.
fn nearest(values: impl Iterator<Item = f64>, wanted: f64) -> usize {
    let distance = |value: f64| (value.max(1e-9) / wanted).ln().abs();
    let distances = values.map(distance).enumerate();
    distances.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(index, _)| index)
}

/// "For at most 5 % slowdown: at most 3.2 µs per page fetch, or at least 40 % local memory."
pub(crate) fn requirement(r: &Requirement, fit: &Fit) -> String {
    let mut ways = vec![match r.max_fetch_us {
        Some(us) => format!("at most {} per page fetch", nanoseconds(us * 1e3)),
        None if fit.waits <= 0.0 => "any time per page fetch will do".into(),
        None => "no time per page fetch is short enough".into(),
    }];
    if let Some(share) = r.min_local {
        let at =
            r.at_fetch_us.map_or(String::new(), |us| format!(" (with {} per fetch)", nanoseconds(us * 1e3)));
        ways.push(format!("at least {} local memory{at}", percent(share)));
    }
    format!("for at most {} slowdown: {}", percent(r.loss), ways.join(", or "))
}

/// The straight line and how good it is.
pub(crate) fn fit(fit: &Fit) -> String {
    let waits = |value: f64| count(value.max(0.0).round() as u64);
    format!(
        "run time = {} + {} waits on the critical path × time of a fetch; 95 % interval {} to {} waits; R² {:.4}; \
         farthest point {} off the line",
        seconds(fit.intercept_s),
        waits(fit.waits),
        waits(fit.waits_ci95[0]),
        waits(fit.waits_ci95[1]),
        fit.r2,
        percent(fit.worst_residual)
    )
}

/// The pager's floor.
pub(crate) fn floor(c: &Comparison) -> String {
    format!(
        "{} per fetch is the pager's own cost: slowdowns for shorter times follow from the line, not from a run",
        nanoseconds(c.injection.floor_ns)
    )
}

/// "1.024 (1.020 to 1.028)": a slowdown with its interval.
pub(crate) fn with_interval(slowdown: f64, [lo, hi]: [f64; 2]) -> (String, String) {
    (ratio(slowdown), format!("{} to {}", ratio(lo), ratio(hi)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_spoken_of_at_the_nearest_setting() {
        assert_eq!(nearest([1e3, 4e3, 1e5].into_iter(), 5e3), 1);
        assert_eq!(nearest([3e3, 1e3].into_iter(), 5e3), 0);
    }

    #[test]
    fn losses_in_words() {
        assert_eq!(loss(1.0001), "no slower");
        assert_eq!(loss(1.0244), "2.4\u{a0}% slower");
        assert_eq!(loss(3.2), "3.2 times as slow");
    }

    #[test]
    fn requirements_that_cannot_fail_or_cannot_be_met() {
        let line =
            |waits| Fit { intercept_s: 1.0, waits, waits_ci95: [waits; 2], r2: 1.0, worst_residual: 0.0 };
        let none = Requirement { loss: 0.05, max_fetch_us: None, min_local: None, at_fetch_us: None };
        assert!(requirement(&none, &line(0.0)).ends_with("any time per page fetch will do"));
        assert!(requirement(&none, &line(9.0)).ends_with("no time per page fetch is short enough"));
        let both =
            Requirement { max_fetch_us: Some(3.2), min_local: Some(0.4), at_fetch_us: Some(5.0), ..none };
        assert_eq!(
            requirement(&both, &line(9.0)),
            "for at most 5\u{a0}% slowdown: at most 3.2\u{a0}µs per page fetch, or at least 40\u{a0}% local memory \
             (with 5\u{a0}µs per fetch)"
        );
    }
}
