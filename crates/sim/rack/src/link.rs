//! Links: rate and propagation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Rate, Time};

/// A full-duplex link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkSpec {
    /// Rate in each direction. Default 100 Gb/s (EDM §4.3).
    pub rate: Rate,
    /// Delay from one end to the other. Default 10 ns (EDM table 1).
    pub propagation: Time,
}

impl Default for LinkSpec {
    fn default() -> LinkSpec {
        LinkSpec { rate: Rate::from_gbps(100), propagation: Time::from_ns(10) }
    }
}

impl LinkSpec {
    pub(crate) const SLOWEST: Rate = Rate::from_bps(1_000_000);
    pub(crate) const FASTEST: Rate = Rate::from_gbps(100_000);
    /// Longest propagation: no rack is longer than a light-second.
    pub(crate) const LONGEST: Time = Time::from_us(1_000_000);
    /// Default link of a host to the CXL switch of its rack. Its rate is that of PCIe 5.0 x16 (DRack §2.4: 500 Gb/s).
    /// Its propagation is a quarter of the time that a round trip through a CXL switch adds to a local access (§7.1:
    /// 170 to 270 ns), because the round trip crosses two links in each direction.
    pub const CXL: LinkSpec = LinkSpec { rate: Rate::from_gbps(500), propagation: Time::from_ns(55) };
}
