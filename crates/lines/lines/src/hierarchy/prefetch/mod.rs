//! Hardware prefetchers of a core: which lines they ask for, by what the core accesses.
//!
//! | prefetcher | level | learns from | asks for |
//! |---|---|---|---|
//! | [`next_line`] | L1 | loads in ascending order | next line |
//! | [`stride`] | L1 | addresses of each load instruction | address one stride ahead |
//! | [`streams`] | L2 | lines that the first level asks for, by page | some lines ahead, ascending or descending |
//!
//! Intel 64 and IA-32 Architectures Optimization Reference Manual, "Data Prefetching", sections on the first-level data
//! cache and on the L2: the DCU prefetcher, the instruction pointer-based stride prefetcher and the streamer. AMD's Software
//! Optimization Guides since Zen 3 name the same three kinds (L1 stream, L1 stride, L2 stream) without their numbers, so that
//! Intel's stand for both.
//!
//! Departures: prefetchers of the first level learn from what misses there and from the first use of each line that they
//! brought, not from every load. Intel's spatial prefetcher of line pairs and AMD's region and up/down prefetchers are not
//! simulated. None but streams follows a program into the next page of 4 KiB, and none holds back when memory is busy.

mod next_line;
mod page;
mod streams;
mod stride;

use crate::processor::{Prefetchers, StreamReach};
use next_line::NextLine;
pub(super) use streams::LinesAhead;
use streams::Streams;
use stride::Strides;

/// Prefetchers of a core.
#[derive(Clone, Debug)]
pub(super) struct Learned {
    next_line: Option<NextLine>,
    strides: Option<Strides>,
    streams: Option<Streams>,
}

impl Learned {
    /// Creates prefetchers that have seen nothing.
    pub(super) fn new(on: Prefetchers, reach: StreamReach) -> Learned {
        Learned {
            next_line: on.next_line.then(NextLine::new),
            strides: on.stride.then(Strides::new),
            streams: on.streams.then(|| Streams::new(reach)),
        }
    }

    /// Learns from a load that missed the first level, or was the first use of a line that a prefetcher brought there. Returns
    /// the lines to bring to the first level.
    pub(super) fn loaded(&mut self, instruction: u64, address: u64) -> [Option<u64>; 2] {
        let next = self.next_line.as_mut().and_then(|next_line| next_line.loaded(address / 64));
        let stride = self.strides.as_mut().and_then(|strides| strides.loaded(instruction, address));
        [next, stride.filter(|line| Some(*line) != next)]
    }

    /// Learns whether the second level had all lines that the last request returned.
    pub(super) fn found(&mut self, are_hits: bool) {
        self.streams.iter_mut().for_each(|streams| streams.found(are_hits));
    }

    /// Learns from a line that the first level asked the second for. Returns the lines to bring to the second level.
    pub(super) fn requested(&mut self, line: u64) -> LinesAhead {
        self.streams.as_mut().map_or(LinesAhead::NONE, |streams| streams.requested(line))
    }
}
