//! The question that a run answers, and its answer in one sentence.

use unrack_record::{Comparison, Disturbance, FabricResult, Fit, Injection, MapLocal, SlowdownMap};

use crate::needs;
use crate::words::{bytes, count, listed, nanoseconds, percent, program, rate, ratio, seconds, share, short};

/// Returns the question that a comparison answers.
pub(crate) fn question(command: &[String]) -> String {
    format!("What would disaggregated memory do to {}?", program(command))
}

/// Returns the answer as text: "With 25% of its 256 MiB local, sort would be ..."
pub(crate) fn comparison(c: &Comparison) -> String {
    let roughly = if c.rough.is_some() { "Roughly: with" } else { "With" };
    let mut text =
        format!("{roughly} {} of its {} in local memory, ", share(&c.local), bytes(c.footprint_bytes));
    let is_network = |f: &&FabricResult| f.fabric != "ideal" || c.fabrics.len() == 1;
    let losses: Vec<_> = c.fabrics.iter().filter(is_network).filter_map(loss_on).collect();
    text += program(&c.command);
    text += &match losses[..] {
        [] if c.fabrics.is_empty() => " was run at several delays, but on no fabric.".into(),
        [] => " was run at several delays.".into(),
        _ => format!(" would be {}.", listed(&losses)),
    };
    for sentence in needs::withheld_fabrics(c).into_iter().chain(needs::headline(c)) {
        text += &format!(" {sentence}");
    }
    text
}

fn loss_on(fabric: &FabricResult) -> Option<String> {
    let (slowdown, [_, most]) = (fabric.slowdown?, fabric.slowdown_ci95?);
    let text = format!("{} on {}", loss(slowdown), fabric.fabric);
    // The upper end of the interval is stated only if the loss at that end is more than twice the estimated loss.
    Some(match most - 1.0 > (2.0 * (slowdown - 1.0)).max(LITTLE) {
        true => format!("{text} (at most {})", loss(most)),
        false => text,
    })
}

/// Loss that is too small to be mentioned.
const LITTLE: f64 = 0.01;

/// Returns a slowdown in words.
fn loss(slowdown: f64) -> String {
    match slowdown {
        s if s >= 2.0 => format!("{} times as slow", short(s)),
        s if s >= 1.0005 => format!("{} slower", percent(((s - 1.0) * 1000.0).round() / 1000.0)),
        _ => "no slower".into(),
    }
}

/// Returns the question that a map answers.
pub(crate) fn map_question(command: &[String]) -> String {
    format!("Which latency, bandwidth and local share does {} need?", program(command))
}

/// Returns the answer of a map as text: "At 5 µs and 40 Gb/s ...", for all its local shares.
pub(crate) fn map(map: &SlowdownMap) -> String {
    let (latency, bandwidth) = reference(map);
    let stated = |local: &MapLocal| {
        let slowdown = local.slowdown.as_ref()?[latency][bandwidth];
        Some(format!("{} with {} local", loss(slowdown), share(&local.local)))
    };
    let withheld =
        |local: &MapLocal| local.withheld.is_some().then(|| format!("{} local", share(&local.local)));
    let (stated, withheld): (Vec<_>, Vec<_>) =
        (map.locals.iter().filter_map(stated).collect(), map.locals.iter().filter_map(withheld).collect());
    let mut sentences = Vec::new();
    if !stated.is_empty() {
        let (latency, bandwidth) =
            (nanoseconds(map.latencies_ns[latency]), rate(map.bandwidths_bps[bandwidth]));
        let stated = listed(&stated);
        sentences.push(format!("At {latency} and {bandwidth}, {} would be {stated}.", program(&map.command)));
    }
    if let Some(why) = map.locals.iter().find_map(|local| local.withheld.as_ref()) {
        sentences.push(format!("The answer for {} is withheld: {why}.", listed(&withheld)));
    }
    sentences.join(" ")
}

/// Returns whether the numbers of a share are rough.
pub(crate) fn is_rough(map: &SlowdownMap) -> bool {
    map.locals.iter().any(|local| local.rough.is_some())
}

/// Returns the indices of the latency and the bandwidth that the answer is about. They are nearest to the values that DDC §3 holds fixed.
pub(crate) fn reference(map: &SlowdownMap) -> (usize, usize) {
    let latency = nearest(map.latencies_ns.iter().copied(), 5_000.0);
    (latency, nearest(map.bandwidths_bps.iter().map(|bps| *bps as f64), 40e9))
}

/// Returns the index of the value nearest to `wanted`, by ratio.
fn nearest(values: impl Iterator<Item = f64>, wanted: f64) -> usize {
    let distance = |value: f64| (value.max(1e-9) / wanted).ln().abs();
    let distances = values.map(distance).enumerate();
    distances.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(index, _)| index)
}

/// Describes the fitted line and its quality.
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

/// Describes the fitted line of a comparison, or states the reason why there is none.
pub(crate) fn line(injection: &Injection) -> String {
    match (&injection.fit, &injection.withheld) {
        (Some(line), _) => fit(line),
        (None, Some(why)) => format!("withheld: {why}"),
        (None, None) => "none".into(),
    }
}

/// Describes the pager's cost per fetch, which is the smallest delay.
pub(crate) fn floor(floor_ns: Option<f64>) -> String {
    match floor_ns {
        Some(floor_ns) => format!(
            "{} per fetch is the pager's own cost: slowdowns for shorter times follow from the line, not from a run",
            nanoseconds(floor_ns)
        ),
        None => "withheld: other work disturbed the measurement of the pager's own cost per fetch".into(),
    }
}

/// Returns a text such as "3 of 16 runs were disturbed ...", if other work disturbed any runs.
pub(crate) fn disturbance(d: &Disturbance, is_rough: bool) -> Option<String> {
    let (disturbed, last) = (d.disturbed.len(), d.disturbed.last()?);
    let again = d.disturbed.iter().filter(|run| run.repeated).count();
    let used = if is_rough { "used roughly" } else { "not used" };
    let waited = match d.waited_s {
        s if s >= 1.0 => format!(", after {} of waiting for other work to end", seconds(s)),
        _ => String::new(),
    };
    Some(format!(
        "{disturbed} of {} runs were disturbed and are {used}, {again} of them since made again undisturbed{waited}; the last: {}, {}",
        d.runs, last.run, last.why
    ))
}

/// Returns a slowdown and its interval as texts, for example "1.024" and "1.020 to 1.028". A rough slowdown is "~1.024".
pub(crate) fn with_interval(c: &Comparison, fabric: &FabricResult) -> (String, String) {
    let about = if c.rough.is_some() { "~" } else { "" };
    match (fabric.slowdown, fabric.slowdown_ci95) {
        (Some(slowdown), Some([lo, hi])) => {
            (format!("{about}{}", ratio(slowdown)), format!("{} to {}", ratio(lo), ratio(hi)))
        }
        _ => ("withheld".into(), "-".into()),
    }
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
}
