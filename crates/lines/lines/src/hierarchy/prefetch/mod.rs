//! Hardware prefetchers of a core. They determine which lines to request from the accesses of the core.
//!
//! | prefetcher | level | learns from | requests |
//! |---|---|---|---|
//! | [`next_line`] | L1 | loads in ascending order | next line |
//! | [`stride`] | L1 | addresses of each load instruction | address one stride ahead |
//! | [`streams`] | L2 | lines that the first-level cache requests, by page | some lines ahead, ascending or descending |
//!
//! Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, "Data Prefetching", sections on the
//! first-level data cache and on the L2, which describe the DCU prefetcher, the instruction pointer-based stride
//! prefetcher and the streamer. AMD's Software Optimization Guides since Zen 3 name the same three kinds (L1 stream, L1
//! stride, L2 stream) but give no numbers for them. Therefore the model uses Intel's numbers for the processors of AMD
//! too.
//!
//! Departures:
//! - The prefetchers of the first-level cache learn from the misses of this cache and from the first use of each
//!   prefetched line. In a real core, they learn from every load.
//! - Intel's spatial prefetcher of line pairs and AMD's region and up/down prefetchers are not simulated.
//! - Only the streamer may follow a program into the next 4 KiB page.
//! - No prefetcher throttles itself when memory is busy.

mod next_line;
mod page;
mod streams;
mod stride;

use crate::processor::{Prefetchers, StreamReach};
use next_line::NextLine;
pub(super) use streams::LinesAhead;
use streams::TrackedPages;
use stride::Strides;

/// Prefetchers of a core.
#[derive(Clone, Debug)]
pub(super) struct Learned {
    next_line: Option<NextLine>,
    strides: Option<Strides>,
    streams: Option<TrackedPages>,
}

impl Learned {
    /// Creates untrained prefetchers.
    pub(super) fn new(on: Prefetchers, reach: StreamReach) -> Learned {
        Learned {
            next_line: on.next_line.then(NextLine::new),
            strides: on.stride.then(Strides::new),
            streams: on.streams.then(|| TrackedPages::new(reach)),
        }
    }

    /// Trains the prefetchers of the first-level cache with a load that missed this cache or was the first use of a
    /// prefetched line. Returns the lines that they request for the first-level cache.
    pub(super) fn loaded(&mut self, instruction: u64, address: u64) -> [Option<u64>; 2] {
        let next = self.next_line.as_mut().and_then(|next_line| next_line.loaded(address / 64));
        let stride = self.strides.as_mut().and_then(|strides| strides.loaded(instruction, address));
        [next, stride.filter(|line| Some(*line) != next)]
    }

    /// Records whether the second-level cache contained all lines that the last call of `requested` returned.
    pub(super) fn found(&mut self, are_hits: bool) {
        self.streams.iter_mut().for_each(|streams| streams.found(are_hits));
    }

    /// Trains the streamer with a line that the first-level cache requested from the second-level cache. Returns the
    /// lines that the streamer requests for the second-level cache.
    pub(super) fn requested(&mut self, line: u64) -> LinesAhead {
        self.streams.as_mut().map_or(LinesAhead::NONE, |streams| streams.requested(line))
    }
}
