//! Stream prefetcher of the second-level cache, which models Intel's streamer.
//!
//! According to the manual, it "monitors read requests from the L1 cache for ascending and descending sequences of
//! addresses", whether loads, stores or prefetches of the first-level cache caused these requests. It "maintains one
//! forward or backward stream for each 4 KByte page" for up to 32 pages, "runs up to 20 lines ahead", and "may issue
//! two prefetch requests on every L2 lookup".
//!
//! Measurements show that some processors stream from memory faster than these limits allow. Their prefetchers must
//! therefore run further ahead, and into the next page. They run less far ahead while another stream requests lines
//! that the second-level cache already contains. The number of lines ahead in each of these two cases comes from a
//! calibration of the machine ([`StreamReach`]).

use super::page::{PAGE_LINES, is_same_page};
use crate::processor::StreamReach;

/// Number of pages that the streamer tracks simultaneously.
const PAGES: usize = 32;
/// Maximum number of lines that the streamer requests per lookup of the second-level cache.
const AT_ONCE: u64 = 2;
/// Number of successive steps in one direction after which a stream is detected.
const STEPS: u8 = 2;
/// Maximum length of a step of a stream, in lines. Steps of more than one line occur because requests of neighbouring
/// loads may arrive out of order. Intel's manual does not state this number.
const LONGEST: i64 = 2;
/// Number of last requests from which the streamer determines whether two streams run concurrently. They run
/// concurrently if each of the two has made at least one of these requests.
const RECENT: u64 = 64;

/// Page that is tracked.
#[derive(Clone, Copy, Debug)]
struct Stream {
    page: u64,
    /// Line that the last request in this page accessed.
    last: u64,
    /// Direction of the last steps: 1 (ascending), -1 (descending), or 0 before the first step.
    direction: i64,
    /// Number of successive steps in this direction.
    steps: u8,
    /// Last line that the streamer has requested for this stream.
    ahead: u64,
    /// Whether the second-level cache already contained the lines that the streamer requested last for this stream.
    are_hits: bool,
    /// Sequence number of the last request in this page.
    at: u64,
}

/// Sequence of lines that the streamer requests, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct LinesAhead {
    next: u64,
    direction: i64,
    count: u64,
}

impl LinesAhead {
    /// Empty sequence of lines.
    pub(super) const NONE: LinesAhead = LinesAhead { next: 0, direction: 0, count: 0 };

    /// Returns whether the sequence is empty.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Iterator for LinesAhead {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        let line = self.next;
        self.next = line.wrapping_add_signed(self.direction);
        Some(line)
    }
}

/// Pages that the streamer tracks. The page with the most recent request is the first one.
#[derive(Clone, Debug)]
pub(super) struct TrackedPages {
    reach: StreamReach,
    streams: [Stream; PAGES],
    /// Total number of requests.
    requests: u64,
}

impl TrackedPages {
    pub(super) fn new(reach: StreamReach) -> TrackedPages {
        TrackedPages { reach, streams: [Stream::new(u64::MAX, 0); PAGES], requests: 0 }
    }

    /// Trains the streamer with a line that the first-level cache requested. Returns the lines that the streamer
    /// requests.
    pub(super) fn requested(&mut self, line: u64) -> LinesAhead {
        let page = line >> PAGE_LINES;
        let known =
            self.streams.iter().position(|stream| stream.page == page).or_else(|| self.arriving(line));
        let place = known.unwrap_or(PAGES - 1);
        self.streams[..=place].rotate_right(1);
        self.requests += 1;
        let [stream, others @ ..] = &mut self.streams;
        if known.is_none() {
            *stream = Stream { at: self.requests, ..Stream::new(page, line) };
            return LinesAhead::NONE;
        }
        (stream.page, stream.at) = (page, self.requests);
        stream.step(line);
        if stream.steps < STEPS {
            return LinesAhead::NONE;
        }
        // The streams are in the order of their last requests, so that the most recent stream is the first one.
        let mut recent = others.iter().take_while(|other| other.at + RECENT > self.requests);
        let is_beside_hits = !stream.are_hits && recent.any(|other| other.are_hits);
        let lines = if is_beside_hits { self.reach.lines_beside_hits } else { self.reach.lines };
        stream.advance(line, StreamReach { lines, ..self.reach })
    }

    /// Records whether the second-level cache contained all lines that the last call of `requested` returned.
    pub(super) fn found(&mut self, are_hits: bool) {
        self.streams[0].are_hits = are_hits;
    }

    /// Returns the index of the stream that continues with `line` from a neighbouring page.
    fn arriving(&self, line: u64) -> Option<usize> {
        let goes_on = |stream: &Stream| {
            let step = line.wrapping_sub(stream.last) as i64;
            stream.steps >= STEPS && step.abs() <= LONGEST && step.signum() == stream.direction
        };
        self.streams.iter().position(goes_on).filter(|_| self.reach.crosses_pages)
    }
}

impl Stream {
    /// Creates the stream of a page whose first request is for `line`.
    fn new(page: u64, line: u64) -> Stream {
        Stream { page, last: line, direction: 0, steps: 0, ahead: line, are_hits: false, at: 0 }
    }

    /// Records a request for `line` as a step from the previous request of this stream.
    fn step(&mut self, line: u64) {
        let step = line.wrapping_sub(self.last) as i64;
        self.last = line;
        if step == 0 {
            return;
        }
        let is_near = step.abs() <= LONGEST;
        if is_near && step.signum() == self.direction {
            self.steps = self.steps.saturating_add(1);
        } else {
            (self.direction, self.steps, self.ahead) = (step.signum(), u8::from(is_near), line);
            self.are_hits = false;
        }
    }

    /// Returns the next lines that the streamer requests for this stream after a request for `line`, and records the
    /// last of them.
    fn advance(&mut self, line: u64, reach: StreamReach) -> LinesAhead {
        let distance = |ahead: u64| (ahead.wrapping_sub(line) as i64) * self.direction;
        let begin = if distance(self.ahead) > 0 { self.ahead } else { line };
        let mut count = 0;
        let mut ahead = begin;
        while count < AT_ONCE {
            let next = ahead.wrapping_add_signed(self.direction);
            let is_in_reach = reach.crosses_pages || is_same_page(next, line);
            if !is_in_reach || distance(next) > i64::from(reach.lines) {
                break;
            }
            (ahead, count) = (next, count + 1);
        }
        self.ahead = ahead;
        LinesAhead { next: begin.wrapping_add_signed(self.direction), direction: self.direction, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(streams: &mut TrackedPages, line: u64) -> Vec<u64> {
        streams.requested(line).collect()
    }

    #[test]
    fn a_stream_runs_ahead_two_lines_at_a_time_to_twenty() {
        let mut streams = TrackedPages::new(StreamReach::INTEL);
        assert!([0, 1].iter().all(|line| asked(&mut streams, *line).is_empty()));
        for line in 2..19 {
            let first = line + 1 + (line - 2);
            assert_eq!(asked(&mut streams, line), [first, first + 1], "line {line}");
        }
        // Line 18 has asked for 35 and 36; 20 lines ahead of 19 are 39.
        assert_eq!(asked(&mut streams, 19), [37, 38]);
        assert_eq!(asked(&mut streams, 20), [39, 40]);
        assert_eq!(asked(&mut streams, 21), [41]);
        assert_eq!(asked(&mut streams, 22), [42]);
    }

    /// With a reach of more than a page, a scan continues in the following pages and requests each line once.
    #[test]
    fn a_stream_that_crosses_pages_never_stops() {
        let mut streams =
            TrackedPages::new(StreamReach { lines: 80, lines_beside_hits: 20, crosses_pages: true });
        let mut all = Vec::new();
        for line in 640..2000u64 {
            all.extend(streams.requested(line));
            let most = line + 80;
            assert!(all.last().is_none_or(|last| *last <= most), "line {line}");
        }
        assert_eq!(all, (643..2080).collect::<Vec<u64>>());
    }

    proptest! {
        /// In both directions, a scan of a page requests each of its lines once, except for the first three.
        #[test]
        fn a_page_is_covered_and_never_left(page in 1u64..1 << 40, is_back: bool) {
            let mut streams = TrackedPages::new(StreamReach::INTEL);
            let mut lines: Vec<u64> = (page << 6..(page + 1) << 6).collect();
            if is_back {
                lines.reverse();
            }
            let mut all = Vec::new();
            for line in &lines {
                all.extend(streams.requested(*line));
            }
            prop_assert_eq!(&all, &lines[3..]);
        }

        /// Streams in up to 32 pages do not disturb each other.
        #[test]
        fn pages_are_followed_apart(pages in 1u64..=PAGES as u64) {
            let mut streams = TrackedPages::new(StreamReach::INTEL);
            let mut count = 0;
            for line in 0..64 {
                count += (0..pages).map(|page| streams.requested(page << 6 | line).count()).sum::<usize>();
            }
            prop_assert_eq!(count as u64, 61 * pages);
        }
    }

    /// A stream in steady state whose lines come from memory stays `beside` lines ahead while another stream hits,
    /// and `lines` ahead otherwise.
    #[test]
    fn a_stream_reaches_less_far_beside_one_that_hits() {
        let reach = StreamReach { lines: 60, lines_beside_hits: 25, crosses_pages: true };
        let mut streams = TrackedPages::new(reach);
        let mut ahead = 0;
        let mut run = |streams: &mut TrackedPages, from: u64, other_hits: Option<bool>| {
            for line in from..from + 200 {
                if let Some(last) = streams.requested((1 << 30) + line).last() {
                    ahead = last - (1 << 30) - line;
                    streams.found(false);
                }
                if let Some(hits) = other_hits
                    && !streams.requested((2 << 30) + line).is_empty()
                {
                    streams.found(hits);
                }
            }
            ahead
        };
        assert_eq!(run(&mut streams, 0, None), 60);
        assert_eq!(run(&mut streams, 200, Some(false)), 60, "both ask memory");
        assert_eq!(run(&mut streams, 400, Some(true)), 25);
        assert_eq!(run(&mut streams, 600, None), 60, "the other is over");
    }

    #[test]
    fn more_pages_than_are_followed_are_forgotten() {
        let mut streams = TrackedPages::new(StreamReach::INTEL);
        let pages = PAGES as u64 + 1;
        for line in 0..64 {
            assert!((0..pages).all(|page| streams.requested(page << 6 | line).count() == 0));
        }
    }

    #[test]
    fn jumps_and_turns_are_no_stream() {
        let mut streams = TrackedPages::new(StreamReach::INTEL);
        for line in [0, 30, 5, 31, 6, 32, 7, 33, 7, 8, 7, 8, 7] {
            assert!(asked(&mut streams, line).is_empty(), "line {line}");
        }
    }
}
