//! Links of a simulation over time, reduced to the values that a picture shows.

use std::collections::BTreeMap;

use unrack_record::ports::{Kind, Meta, Row};

/// Maximum number of steps of time.
const STEPS: u64 = 96;
/// Maximum number of links that are kept, which are the busiest ones.
const MOST_LINKS: usize = 32;

/// Utilization and queues of the busiest links of a simulation, in equal steps of time.
#[derive(Debug, Clone, PartialEq)]
pub struct LinksOverTime {
    /// Length of a step; the last may be shorter.
    pub step_us: f64,
    pub end_us: f64,
    /// Links, ordered by kind and number.
    pub links: Vec<LinkOverTime>,
    /// Number of links that had any traffic.
    pub in_all: usize,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkOverTime {
    pub name: String,
    /// Busy time over the length of each step: 0 to 1.
    pub utilization: Vec<f64>,
    /// Maximum number of bytes that a packet found queued ahead of it, in each step.
    pub queue_bytes: Vec<u64>,
}

/// Sums of one link.
#[derive(Clone)]
struct Sums {
    busy_ps: Vec<u64>,
    queue_bytes: Vec<u64>,
}

impl LinksOverTime {
    /// Reduces the rows of a table to steps of time. `None` if no link had traffic.
    pub fn from_rows(meta: &Meta, rows: &[Row]) -> Option<LinksOverTime> {
        let interval = meta.interval_ps.max(1);
        let intervals = rows.iter().map(|row| row.from_ps / interval).max()? + 1;
        let together = intervals.div_ceil(STEPS);
        let steps = intervals.div_ceil(together) as usize;
        let mut links: BTreeMap<(bool, u32), Sums> = BTreeMap::new();
        let none = Sums { busy_ps: vec![0; steps], queue_bytes: vec![0; steps] };
        for row in rows {
            let sums = links.entry((row.kind == Kind::Port, row.number)).or_insert_with(|| none.clone());
            let step = (row.from_ps / interval / together) as usize;
            sums.busy_ps[step] += row.busy_ps;
            sums.queue_bytes[step] = sums.queue_bytes[step].max(row.queue_max_bytes);
        }
        let in_all = links.len();
        let length_ps = |step: usize| {
            let from = step as u64 * together;
            (from + together).min(intervals).saturating_sub(from) * interval
        };
        let share = |(step, busy): (usize, &u64)| *busy as f64 / length_ps(step) as f64;
        let link = |((is_port, number), sums): ((bool, u32), Sums)| LinkOverTime {
            name: format!("{} {number}", if is_port { "port" } else { "node" }),
            utilization: sums.busy_ps.iter().enumerate().map(share).collect(),
            queue_bytes: sums.queue_bytes,
        };
        Some(LinksOverTime {
            step_us: (together * interval) as f64 / 1e6,
            end_us: (intervals * interval) as f64 / 1e6,
            links: busiest(links).map(link).collect(),
            in_all,
        })
    }
}

/// Returns the busiest links, in the order of the map.
fn busiest(links: BTreeMap<(bool, u32), Sums>) -> impl Iterator<Item = ((bool, u32), Sums)> {
    let busy = |sums: &Sums| sums.busy_ps.iter().sum::<u64>();
    let mut order: Vec<_> = links.iter().map(|(link, sums)| (std::cmp::Reverse(busy(sums)), *link)).collect();
    order.sort_unstable();
    let kept: Vec<_> = order.into_iter().take(MOST_LINKS).map(|(_, link)| link).collect();
    links.into_iter().filter(move |(link, _)| kept.contains(link))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(from_ps: u64, number: u32, busy_ps: u64) -> Row {
        Row {
            from_ps,
            kind: Kind::Port,
            number,
            busy_ps,
            utilization: busy_ps as f64 / 1e7,
            packets: 1,
            wire_bytes: 64,
            payload_bytes: 32,
            queue_mean_bytes: 0.0,
            queue_max_bytes: busy_ps,
        }
    }

    #[test]
    fn steps_hold_the_busy_time_of_their_intervals() {
        let meta = Meta { fabric: "edm".into(), interval_ps: 10_000_000 };
        // 200 intervals become 67 steps of 3 intervals; the last step has 2.
        let rows: Vec<Row> = (0..200).map(|n| row(n * 10_000_000, 7, 5_000_000)).collect();
        let links = LinksOverTime::from_rows(&meta, &rows).unwrap();
        assert_eq!((links.step_us, links.end_us, links.in_all), (30.0, 2000.0, 1));
        let link = &links.links[0];
        assert_eq!((link.name.as_str(), link.utilization.len()), ("port 7", 67));
        assert!(link.utilization.iter().all(|share| (share - 0.5).abs() < 1e-12), "{link:?}");
        assert_eq!(link.queue_bytes, [5_000_000; 67]);
        assert_eq!(LinksOverTime::from_rows(&meta, &[]), None);
    }

    #[test]
    fn the_busiest_links_are_kept_in_their_order() {
        let meta = Meta { fabric: "edm".into(), interval_ps: 10_000_000 };
        let rows: Vec<Row> = (0..100).map(|port| row(0, port, u64::from(port) * 10)).collect();
        let links = LinksOverTime::from_rows(&meta, &rows).unwrap();
        let names: Vec<&str> = links.links.iter().map(|link| link.name.as_str()).collect();
        assert_eq!((names.len(), links.in_all, names[0], names[31]), (32, 100, "port 68", "port 99"));
    }
}
