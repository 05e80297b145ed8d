//! EDM §2.4, limitations 1 to 3: the costs of Ethernet's MAC for small messages.

use crate::computed::Computed;
use unrack_phy::mac::{FCS, Framer, GAP, MIN_FRAME};
use unrack_phy::pcs::Column;
use unrack_units::{Bytes, Rate};

const RATE: Rate = Rate::from_gbps(100);
/// Bytes of an RREQ (§2.3).
const REQUEST: usize = 8;
/// Number of frames over which gaps are averaged.
const FRAMES: usize = 1_000;
/// Characters in a frame's columns that are not bytes of the frame: start, preamble, delimiter, and end.
const AROUND: usize = 8;

/// Returns the shares of bandwidth that are wasted, and the waiting times in nanoseconds.
pub(super) fn values() -> Computed {
    values_of(REQUEST)
}

/// Returns the same values for requests of this many bytes.
pub(super) fn values_of(request: usize) -> Computed {
    let frame = frame_bytes(request);
    let gap = gap_bytes(request);
    let time = |bytes| RATE.transmit(Bytes::new(bytes)).as_ns_f64();
    let values = [
        ("waste", 1.0 - request as f64 / frame),
        ("gap", gap / (frame + gap)),
        ("behind_1500", time(1_500)),
        ("behind_9000", time(9_000)),
    ];
    values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Returns the length in bytes of the frame that carries `contents` bytes.
fn frame_bytes(contents: usize) -> f64 {
    let mut columns = Vec::new();
    Framer::default().frame(&vec![0; contents], &mut columns);
    let idle = |column: &Column| (0..8).filter(|lane| column.is_control(*lane)).count();
    // The start is a control character, and so are all characters from the end of the frame on.
    let controls: usize = columns.iter().map(idle).sum();
    (8 * columns.len() - controls - (AROUND - 1)) as f64
}

/// Returns the mean number of characters between two frames that carry `contents` bytes, including the terminating one.
fn gap_bytes(contents: usize) -> f64 {
    let (mut framer, mut columns) = (Framer::default(), Vec::new());
    (0..FRAMES).for_each(|_| framer.frame(&vec![0; contents], &mut columns));
    8.0 * columns.len() as f64 / FRAMES as f64 - AROUND as f64 - frame_bytes(contents)
}

const _: () = assert!(MIN_FRAME + FCS == 64 && GAP == 12);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_on_the_line_are_as_the_standard_says() {
        assert_eq!(frame_bytes(REQUEST), 64.0);
        assert_eq!(frame_bytes(1_514), 1_518.0);
        for contents in [REQUEST, 61, 62, 63] {
            assert!((gap_bytes(contents) - 12.0).abs() < 0.02, "{}", gap_bytes(contents));
        }
    }
}
