//! Requested delay and local memory of one run.

use crate::error::Error;
use std::path::PathBuf;
use unrack_paging::{FetchDelay, SMALLEST_LOCAL, local_bytes};
use unrack_units::{Bytes, Rate, Share, Time};

/// Delay of a fetch.
#[derive(Debug, Clone)]
pub enum AskedDelay {
    /// Constant delay of each fetch. A value that is not given has a default; if a memory node holds the pages, the default adds no delay.
    Constant { latency: Option<Time>, bandwidth: Option<Rate> },
    /// Delays drawn from a file that a simulation wrote. If no bandwidth is given, the file determines it.
    Drawn { completions: PathBuf, bandwidth: Option<Rate> },
}

const USUAL_LATENCY: Time = Time::from_us(3);
const USUAL_BANDWIDTH: Rate = Rate::from_gbps(100);

impl AskedDelay {
    /// Returns the delay. `is_from_node` is true if pages come from a memory node.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn delay(&self, is_from_node: bool) -> Result<FetchDelay, Error> {
        let (given, bandwidth) = match self {
            AskedDelay::Drawn { completions, bandwidth } => {
                return Ok(FetchDelay::drawn(completions, *bandwidth)?);
            }
            AskedDelay::Constant { latency, bandwidth } => (latency, bandwidth),
        };
        let (latency, rate) = match is_from_node {
            true => (Time::ZERO, Rate::from_bps(0)),
            false => (USUAL_LATENCY, USUAL_BANDWIDTH),
        };
        Ok(FetchDelay::constant(given.unwrap_or(latency), bandwidth.unwrap_or(rate)))
    }

    /// Returns whether the delay is drawn from a file.
    pub(super) fn is_drawn(&self) -> bool {
        matches!(self, AskedDelay::Drawn { .. })
    }
}

/// Returns the local memory of one run. For a share, it is at least [`SMALLEST_LOCAL`], however small the program is.
///
/// # Errors
/// If a size is too small.
pub(super) fn local_of(local: Share, footprint: Option<Bytes>) -> Result<Bytes, Error> {
    match (local, footprint) {
        (share @ Share::Fraction(_), Some(footprint)) => Ok(share.of(footprint).max(SMALLEST_LOCAL)),
        (size, _) => Ok(local_bytes(size, Bytes::ZERO)?),
    }
}
