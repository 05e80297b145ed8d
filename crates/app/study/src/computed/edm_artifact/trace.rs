//! TraceDraw as the authors' generator makes it (`wegul/EDM-tracegen`: `EDM-workload/generate_traces.sh`, `config_traces.py`,
//! `preprocess.py`, `run/flow_generator.cpp`).

use crate::random::Random;
use unrack_workload::{SizeCdf, SizeDistribution};

/// Nodes around the switch (`netsimu/include/params.h`).
pub(super) const NODES: u32 = 144;
/// Nanoseconds of a block of 8 B at 100 Gb/s, in which the authors' simulator counts time.
pub(super) const SLOT_NS: f64 = 0.64;
/// Messages of a trace (`num_flow`).
pub(super) const ROWS: usize = 2_000;
/// Payload of a packet of the generator, and the packet with its headers: a load is of whole packets.
const PACKET: f64 = 1_460.0;
const WITH_HEADERS: f64 = 1_500.0;

pub(super) const APPLICATIONS: [&str; 5] = ["hadoop", "spark", "sparksql", "graphlab", "memcached"];
pub(super) const APPLICATION_LOAD: f64 = 0.4;

/// Loads of short messages: the label of the trace, and the load that the generator gets. The generator draws packets of 1,500 B at that
/// load, of which each becomes a message of 64 B. Therefore the labels 0.2, 0.4, 0.6, 0.8 and 0.9 are loads of 0.128, 0.299, 0.512, 0.811
/// and 0.896 in messages of 64 B.
pub(super) const SHORT_LOADS: [(&str, f64); 5] =
    [("0.2", 3.0), ("0.4", 7.0), ("0.6", 12.0), ("0.8", 19.0), ("0.9", 21.0)];

/// A message of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) slot: u64,
    pub(super) src: u16,
    pub(super) dst: u16,
    /// Bytes of the write, or of the answer to the read.
    pub(super) bytes: u32,
    pub(super) is_read: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Sizes {
    /// 64 B.
    Line,
    /// Sizes of an application, in whole packets.
    Application(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct TraceDraw {
    pub(super) sizes: Sizes,
    pub(super) load: f64,
    /// Share of writes that the generator is asked for. It draws integers from 0 to 10, so that 0.2, 0.5 and 0.8 give 3, 6 and 9 writes
    /// of 11 messages.
    pub(super) writes: f64,
    pub(super) rows: usize,
}

impl TraceDraw {
    /// Draws a trace, ordered by time.
    pub(super) fn draw(&self, seed: u64) -> Vec<Row> {
        let mut random = Random::new(seed);
        let sizes = match self.sizes {
            Sizes::Line => None,
            Sizes::Application(name) => {
                Some(SizeDistribution::Cdf(SizeCdf::built_in(name).expect("one of the five applications")))
            }
        };
        let mean = sizes.as_ref().map_or(PACKET, SizeDistribution::mean);
        // Messages of all nodes per nanosecond: 100 Gb/s are 12.5 B in a nanosecond.
        let rate = 12.5 * self.load / (mean / PACKET * WITH_HEADERS) * f64::from(NODES);
        let mut now = 0.0;
        let row = |_| {
            now -= random.share().ln() / rate;
            let src = random.below(NODES);
            let dst = (src + 1 + random.below(NODES - 1)) % NODES;
            let packets =
                |sizes: &SizeDistribution, share| (sizes.at(share) as f64 / PACKET).round().max(1.0);
            let share = random.share();
            let bytes = sizes.as_ref().map_or(64, |sizes| (packets(sizes, share) * PACKET) as u32);
            let is_read = f64::from(random.below(11)) >= self.writes * 10.01;
            Row { slot: (now / SLOT_NS) as u64, src: src as u16, dst: dst as u16, bytes, is_read }
        };
        (0..self.rows).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trace labelled 0.8 offers 0.811 of the links in messages of 64 B; the applications offer 0.4 of the links with headers.
    #[test]
    fn traces_have_their_loads_and_shares() {
        let load = |traffic: TraceDraw| {
            let rows = traffic.draw(3);
            let bytes: f64 = rows.iter().map(|row| f64::from(row.bytes)).sum();
            let ns = rows.last().expect("rows").slot as f64 * SLOT_NS;
            let writes = rows.iter().filter(|row| !row.is_read).count() as f64 / rows.len() as f64;
            (bytes / ns / 12.5 / f64::from(NODES), writes)
        };
        let rows = 200_000;
        let (short, writes) =
            load(TraceDraw { sizes: Sizes::Line, load: SHORT_LOADS[3].1, writes: 0.8, rows });
        assert!((short - 0.811).abs() < 0.01 && (writes - 9.0 / 11.0).abs() < 0.01, "{short} {writes}");
        let sizes = Sizes::Application("hadoop");
        let (application, writes) = load(TraceDraw { sizes, load: APPLICATION_LOAD, writes: 0.5, rows });
        assert!((application - 0.4 * PACKET / WITH_HEADERS).abs() < 0.01, "{application}");
        assert!((writes - 6.0 / 11.0).abs() < 0.01, "{writes}");
    }
}
