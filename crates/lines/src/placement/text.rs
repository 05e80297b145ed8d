//! Placements as text: a name, and behind it a share or a number of bytes.

use super::Placement;
use crate::processor::{ProcessorError, bytes, unknown};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::AllNear => f.write_str("all-near"),
            Placement::AllFar => f.write_str("all-far"),
            Placement::Interleaved { near_share } => write!(f, "interleaved:{near_share}"),
            Placement::FirstTouch { near_bytes } => write!(f, "first-touch:{near_bytes}"),
            Placement::Tiered { near_bytes, period } => write!(f, "tiered:{near_bytes}/{period}"),
            Placement::DramCache { near_bytes, granule_bytes, ways } => {
                write!(f, "dram-cache:{near_bytes}/{granule_bytes}/{ways}")
            }
            Placement::Ranges => f.write_str("ranges"),
        }
    }
}

impl FromStr for Placement {
    type Err = ProcessorError;

    fn from_str(text: &str) -> Result<Placement, ProcessorError> {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let placement = match (name, value) {
            ("all-near", "") => Some(Placement::AllNear),
            ("all-far", "") => Some(Placement::AllFar),
            ("ranges", "") => Some(Placement::Ranges),
            ("interleaved", share) => {
                share.parse().ok().map(|near_share| Placement::Interleaved { near_share })
            }
            ("first-touch", size) => bytes(size).map(|near_bytes| Placement::FirstTouch { near_bytes }),
            ("tiered", value) => tiered(value),
            ("dram-cache", value) => dram_cache(value),
            _ => None,
        };
        let wanted = "placements are all-near, all-far, ranges, interleaved:SHARE, first-touch:BYTES, \
                      tiered:BYTES/INSTRUCTIONS and dram-cache:BYTES/GRANULE/WAYS";
        placement.ok_or_else(|| unknown(text, "placement", wanted))
    }
}

fn tiered(value: &str) -> Option<Placement> {
    let (size, period) = value.split_once('/')?;
    Some(Placement::Tiered { near_bytes: bytes(size)?, period: period.parse().ok()? })
}

fn dram_cache(value: &str) -> Option<Placement> {
    let (size, rest) = value.split_once('/')?;
    let (granule, ways) = rest.split_once('/')?;
    let (near_bytes, granule_bytes) = (bytes(size)?, bytes(granule)?);
    Some(Placement::DramCache { near_bytes, granule_bytes, ways: ways.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_placement_is_read_as_it_was_written(share in 0.0f64..=1.0, near_bytes: u64, period: u64, ways: u32) {
            let known = [
                Placement::AllNear,
                Placement::AllFar,
                Placement::Ranges,
                Placement::Interleaved { near_share: share },
                Placement::FirstTouch { near_bytes },
                Placement::Tiered { near_bytes, period },
                Placement::DramCache { near_bytes, granule_bytes: period, ways },
            ];
            for placement in known {
                prop_assert_eq!(placement.to_string().parse(), Ok(placement));
            }
        }

        #[test]
        fn odd_texts_are_errors(text in ".{0,12}") {
            let _ = text.parse::<Placement>();
        }
    }

    #[test]
    fn wrong_words_are_named() {
        for text in [
            "near",
            "interleaved",
            "interleaved:half",
            "first-touch:1X",
            "tiered:4M",
            "dram-cache:4M/64",
            "all-far:1",
        ] {
            let error = text.parse::<Placement>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
