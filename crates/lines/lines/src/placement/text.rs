//! Textual form of placements: a name, followed by a share or by numbers of bytes.

use super::PagePlacement;
use crate::processor::{ProcessorError, bytes, unknown};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for PagePlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PagePlacement::AllNear => f.write_str("all-near"),
            PagePlacement::AllFar => f.write_str("all-far"),
            PagePlacement::Interleaved { near_share } => write!(f, "interleaved:{near_share}"),
            PagePlacement::FirstTouch { near_bytes } => write!(f, "first-touch:{near_bytes}"),
            PagePlacement::Tiered { near_bytes, period } => write!(f, "tiered:{near_bytes}/{period}"),
            PagePlacement::DramCache { near_bytes, granule_bytes, ways } => {
                write!(f, "dram-cache:{near_bytes}/{granule_bytes}/{ways}")
            }
            PagePlacement::Ranges => f.write_str("ranges"),
        }
    }
}

impl FromStr for PagePlacement {
    type Err = ProcessorError;

    fn from_str(text: &str) -> Result<PagePlacement, ProcessorError> {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let placement = match (name, value) {
            ("all-near", "") => Some(PagePlacement::AllNear),
            ("all-far", "") => Some(PagePlacement::AllFar),
            ("ranges", "") => Some(PagePlacement::Ranges),
            ("interleaved", share) => {
                share.parse().ok().map(|near_share| PagePlacement::Interleaved { near_share })
            }
            ("first-touch", size) => bytes(size).map(|near_bytes| PagePlacement::FirstTouch { near_bytes }),
            ("tiered", value) => tiered(value),
            ("dram-cache", value) => dram_cache(value),
            _ => None,
        };
        let wanted = "placements are all-near, all-far, ranges, interleaved:SHARE, first-touch:BYTES, \
                      tiered:BYTES/INSTRUCTIONS and dram-cache:BYTES/GRANULE/WAYS";
        placement.ok_or_else(|| unknown(text, "placement", wanted))
    }
}

fn tiered(value: &str) -> Option<PagePlacement> {
    let (size, period) = value.split_once('/')?;
    Some(PagePlacement::Tiered { near_bytes: bytes(size)?, period: period.parse().ok()? })
}

fn dram_cache(value: &str) -> Option<PagePlacement> {
    let (size, rest) = value.split_once('/')?;
    let (granule, ways) = rest.split_once('/')?;
    let (near_bytes, granule_bytes) = (bytes(size)?, bytes(granule)?);
    Some(PagePlacement::DramCache { near_bytes, granule_bytes, ways: ways.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_placement_is_read_as_it_was_written(share in 0.0f64..=1.0, near_bytes: u64, period: u64, ways: u32) {
            let known = [
                PagePlacement::AllNear,
                PagePlacement::AllFar,
                PagePlacement::Ranges,
                PagePlacement::Interleaved { near_share: share },
                PagePlacement::FirstTouch { near_bytes },
                PagePlacement::Tiered { near_bytes, period },
                PagePlacement::DramCache { near_bytes, granule_bytes: period, ways },
            ];
            for placement in known {
                prop_assert_eq!(placement.to_string().parse(), Ok(placement));
            }
        }

        #[test]
        fn odd_texts_are_errors(text in ".{0,12}") {
            let _ = text.parse::<PagePlacement>();
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
            let error = text.parse::<PagePlacement>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
