//! Delay and local memory of one run, as they are asked for.

use crate::error::Error;
use std::path::PathBuf;
use unrack_paging::{Delay, SMALLEST_LOCAL, local_bytes};
use unrack_units::{Bytes, Rate, Share, Time};

/// Delay of a fetch.
#[derive(Debug, Clone)]
pub enum AskedDelay {
    /// The same for each: the usual values, or with a memory node the real ones, unless they are given.
    Constant { latency: Option<Time>, bandwidth: Option<Rate> },
    /// Drawn from a file that a simulation wrote; the rate is that of the file, unless it is given.
    Drawn { completions: PathBuf, bandwidth: Option<Rate> },
}

const USUAL_LATENCY: Time = Time::from_us(3);
const USUAL_BANDWIDTH: Rate = Rate::from_gbps(100);

impl AskedDelay {
    /// Returns the delay, of pages from a memory node or not.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn delay(&self, is_from_node: bool) -> Result<Delay, Error> {
        let (given, bandwidth) = match self {
            AskedDelay::Drawn { completions, bandwidth } => {
                return Ok(Delay::drawn(completions, *bandwidth)?);
            }
            AskedDelay::Constant { latency, bandwidth } => (latency, bandwidth),
        };
        let (latency, rate) = match is_from_node {
            true => (Time::ZERO, Rate::from_bps(0)),
            false => (USUAL_LATENCY, USUAL_BANDWIDTH),
        };
        Ok(Delay::constant(given.unwrap_or(latency), bandwidth.unwrap_or(rate)))
    }

    /// Returns whether it is drawn from a file.
    pub(super) fn is_drawn(&self) -> bool {
        matches!(self, AskedDelay::Drawn { .. })
    }
}

/// Returns the local memory of one run: at least [`SMALLEST_LOCAL`], of however small a program it is a share.
///
/// # Errors
/// If a size is too small.
pub(super) fn local_of(local: Share, footprint: Option<Bytes>) -> Result<Bytes, Error> {
    match (local, footprint) {
        (share @ Share::Fraction(_), Some(footprint)) => Ok(share.of(footprint).max(SMALLEST_LOCAL)),
        (size, _) => Ok(local_bytes(size, Bytes::ZERO)?),
    }
}
