//! Answer of `unrack run` as lines of text for people.

use unrack_compare::{RunAnswer, size_text};
use unrack_paging::{NOT_AWAY, NodeTraffic, Tally};

/// Returns the lines. If the run did not do what was requested, the warning about that comes first; other warnings come last.
pub(super) fn lines(answer: &RunAnswer) -> Vec<String> {
    let (first, last): (Vec<_>, Vec<_>) = answer.warnings.iter().partition(|warning| warning.key == NOT_AWAY);
    let first = first.into_iter().map(|warning| format!("WARNING: {}", warning.text));
    let last = last.into_iter().map(|warning| format!("note: {}", warning.text));
    let nodes = answer.nodes.iter().map(traffic);
    first.chain([counts(answer), times(answer)]).chain(nodes).chain(last).collect()
}

fn counts(answer: &RunAnswer) -> String {
    let share = match answer.footprint_bytes {
        Some(footprint) => {
            format!("{} local ({} of {})", answer.local, size_text(answer.local_bytes), size_text(footprint))
        }
        None => format!("{} local", answer.local),
    };
    let Tally { fetches, write_backs, ahead, late, .. } = answer.tally;
    let peak = size_text(answer.memory.peak_local_bytes);
    let early = match ahead {
        0 => String::new(),
        _ => format!(" and {} ahead ({} of them too late)", thousands(ahead), thousands(late)),
    };
    format!(
        "{share}, {peak} at the peak; {} fetches{early}, {} write-backs",
        thousands(fetches),
        thousands(write_backs)
    )
}

fn times(answer: &RunAnswer) -> String {
    let native = answer.native_s.map(|native_s| format!("; natively {native_s:.2}s")).unwrap_or_default();
    if answer.pid.is_some() {
        return format!(
            "memory was away for {:.2}s, a fetch took {:.2}us",
            answer.wall_s,
            answer.delay_ns / 1e3
        );
    }
    let took = format!("this run took {:.2}s", answer.wall_s);
    let rest = "the rest is the cost of paging in software";
    match (answer.expected_s, answer.expected_s_range, &answer.expected_withheld) {
        (Some(expected_s), ..) => format!(
            "about {expected_s:.2}s where a fetch takes {:.2}us ({took}: {rest}){native}",
            answer.delay_ns / 1e3
        ),
        (None, Some([low, high]), _) => format!(
            "{low:.2}s to {high:.2}s where a fetch takes {:.2}us ({took}: {rest}){native}",
            answer.delay_ns / 1e3
        ),
        (None, None, Some(why)) => format!(
            "{took}{native}; withheld what it would take where a fetch takes {:.2}us: {}",
            answer.delay_ns / 1e3,
            why.text
        ),
        (None, None, None) => format!("{took}{native}"),
    }
}

/// Returns the line about what the run got from one memory node.
fn traffic(from: &NodeTraffic) -> String {
    let rate =
        |bytes: Option<f64>| format!("{} MB/s", thousands((bytes.unwrap_or_default() / 1e6).round() as u64));
    let busy = match from.busy_bytes_per_s {
        None => String::new(),
        rated => format!(", {} while pages were waited for", rate(rated)),
    };
    format!(
        "memory node {}: {} loaded ({} over the run{busy}), {} stored ({}){}",
        from.node,
        size_text(from.loaded_bytes),
        rate(from.loaded_bytes_per_s),
        size_text(from.stored_bytes),
        rate(from.stored_bytes_per_s),
        if from.lost { "; lost" } else { "" }
    )
}

/// Formats `1234567` as `1,234,567`.
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_from_a_node_is_one_line() {
        let from = NodeTraffic {
            node: "10.0.0.2:7000".into(),
            loaded_bytes: 400 << 20,
            stored_bytes: 100 << 20,
            loaded_bytes_per_s: Some(104_857_600.0),
            stored_bytes_per_s: Some(26_214_400.0),
            busy_s: 1.0,
            busy_bytes_per_s: Some(419_430_400.0),
            lost: true,
        };
        assert_eq!(
            traffic(&from),
            "memory node 10.0.0.2:7000: 400MiB loaded (105 MB/s over the run, 419 MB/s while pages were waited for), 100MiB stored \
             (26 MB/s); lost"
        );
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
