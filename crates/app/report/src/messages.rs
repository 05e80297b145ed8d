//! Slowdowns of a simulation's messages, reduced to the values that pictures show.

use unrack_record::messages::Row;

use crate::Cdf;

/// Maximum number of distinct sizes. If there are more, neighbouring sizes are grouped.
const MOST_SIZES: usize = 24;
/// Number of groups in each doubling of the size, if sizes are grouped.
const GROUPS: f64 = 2.0;
/// Minimum number of messages for which a 99th percentile is stated.
const FEWEST: usize = 100;

/// Slowdowns of the messages that count and have finished.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageSlowdowns {
    /// Message sizes, ascending.
    pub sizes: Vec<SizeSlowdown>,
    pub all: Cdf,
}

/// Slowdown of the messages of one size, or of a group of neighbouring sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeSlowdown {
    /// Size in bytes, or the geometric mean of the sizes in the group.
    pub bytes: f64,
    pub messages: u64,
    pub p50: f64,
    /// 99th percentile; `None` for fewer than 100 messages.
    pub p99: Option<f64>,
}

impl MessageSlowdowns {
    /// Reduces these rows to slowdowns by size. `None` if no message finished.
    pub fn from_rows(rows: &[Row]) -> Option<MessageSlowdowns> {
        let mut finished: Vec<(u64, f64)> =
            rows.iter().filter(|row| row.slowdown.is_finite()).map(|row| (row.bytes, row.slowdown)).collect();
        let all = Cdf::from_values(finished.iter().map(|(_, slowdown)| *slowdown).collect())?;
        finished.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let distinct = finished.chunk_by(|a, b| a.0 == b.0).count();
        let group = |bytes: u64| match distinct > MOST_SIZES {
            true => (GROUPS * (bytes.max(1) as f64).log2()).floor() as u64,
            false => bytes,
        };
        let groups = finished.chunk_by(|a, b| group(a.0) == group(b.0));
        Some(MessageSlowdowns { sizes: groups.map(SizeSlowdown::from_messages).collect(), all })
    }
}

impl SizeSlowdown {
    /// Reduces the sizes and slowdowns of at least one message.
    fn from_messages(messages: &[(u64, f64)]) -> SizeSlowdown {
        let logarithms = messages.iter().map(|(bytes, _)| (*bytes.max(&1) as f64).ln()).sum::<f64>();
        let mut slowdowns: Vec<f64> = messages.iter().map(|(_, slowdown)| *slowdown).collect();
        slowdowns.sort_by(f64::total_cmp);
        // The percentile uses the nearest rank, like the summary.
        let rank = |part: f64| slowdowns[((part * slowdowns.len() as f64).ceil() as usize).max(1) - 1];
        let is_one_size = messages[0].0 == messages[messages.len() - 1].0;
        let middle = || (logarithms / messages.len() as f64).exp();
        SizeSlowdown {
            bytes: if is_one_size { messages[0].0 as f64 } else { middle() },
            messages: messages.len() as u64,
            p50: rank(0.5),
            p99: (messages.len() >= FEWEST).then(|| rank(0.99)),
        }
    }
}

#[cfg(test)]
mod tests {
    use unrack_record::messages::Kind;

    use super::*;

    fn row(bytes: u64, slowdown: f64) -> Row {
        Row {
            id: 0,
            src: 0,
            dst: 1,
            kind: Kind::Flow,
            bytes,
            submitted_ps: 0,
            completed_ps: slowdown.is_finite().then_some(1),
            unloaded_ps: 1,
            ideal_ps: 1,
            slowdown,
            retransmissions: 0,
            drops: 0,
            trims: 0,
        }
    }

    #[test]
    fn few_sizes_are_kept_apart_with_their_nearest_ranks() {
        let mut rows: Vec<Row> = (1..=200).rev().map(|n| row(64, f64::from(n))).collect();
        rows.extend([row(4096, 7.0), row(4096, 9.0), row(4096, f64::NAN)]);
        let slowdowns = MessageSlowdowns::from_rows(&rows).unwrap();
        let of = |bytes, messages, p50, p99| SizeSlowdown { bytes, messages, p50, p99 };
        assert_eq!(slowdowns.sizes, [of(64.0, 200, 100.0, Some(198.0)), of(4096.0, 2, 7.0, None)]);
        assert_eq!(slowdowns.all.count, 202);
        assert_eq!(MessageSlowdowns::from_rows(&rows[202..]), None);
    }

    #[test]
    fn many_sizes_are_grouped_and_no_message_is_lost() {
        let rows: Vec<Row> = (1..=10_000).map(|bytes| row(bytes, 1.5)).collect();
        let sizes = MessageSlowdowns::from_rows(&rows).unwrap().sizes;
        assert!(sizes.len() <= 28 && sizes.is_sorted_by(|a, b| a.bytes < b.bytes), "{sizes:?}");
        assert_eq!(sizes.iter().map(|size| size.messages).sum::<u64>(), 10_000);
        assert!(sizes.iter().all(|size| size.p50 == 1.5));
    }
}
