//! Data rates.

use crate::number::{UnitError, Units};
use crate::{Bytes, Time};

/// Data rate in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Creates a rate from bits per second.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }
    /// Creates a rate from gigabits per second.
    pub const fn from_gbps(gbps: u64) -> Rate {
        Rate(gbps * 1_000_000_000)
    }
    /// Returns the bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Returns the gigabits per second.
    pub fn as_gbps_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time to transmit `bytes` at this rate, rounded up to a picosecond.
    ///
    /// # Panics
    /// If the rate is zero. The parser never returns such a rate.
    pub fn transmit(self, bytes: Bytes) -> Time {
        self.transmit_bits(bytes.get() as u128 * 8)
    }

    /// Returns the time to transmit `bits`, like [`Rate::transmit`]. Needed because, for example, 66-bit blocks are not whole bytes.
    pub fn transmit_bits(self, bits: u128) -> Time {
        let ps = (bits * 1_000_000_000_000).div_ceil(self.0 as u128);
        Time::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

const UNITS: Units = Units {
    table: &[
        ("Tbps", 1_000_000_000_000),
        ("Gbps", 1_000_000_000),
        ("Mbps", 1_000_000),
        ("kbps", 1_000),
        ("bps", 1),
    ],
    aliases: &[],
    foreign: &[
        ("k", "kbps", 1),
        ("kbit", "kbps", 1),
        ("kbit/s", "kbps", 1),
        ("kb/s", "kbps", 1),
        ("M", "Mbps", 1),
        ("Mbit", "Mbps", 1),
        ("Mbit/s", "Mbps", 1),
        ("Mb/s", "Mbps", 1),
        ("MBps", "Mbps", 8),
        ("MB/s", "Mbps", 8),
        ("G", "Gbps", 1),
        ("Gbit", "Gbps", 1),
        ("Gbit/s", "Gbps", 1),
        ("Gb/s", "Gbps", 1),
        ("GBps", "Gbps", 8),
        ("GB/s", "Gbps", 8),
        ("T", "Tbps", 1),
        ("Tbit/s", "Tbps", 1),
        ("Tb/s", "Tbps", 1),
    ],
    base: "bits per second",
    example: "100Gbps",
};

impl std::str::FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Rate, UnitError> {
        match UNITS.parse(text)? {
            0 => Err(UnitError::NotANumber { text: text.into(), example: UNITS.example }),
            bps => Ok(Rate(bps)),
        }
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        UNITS.print(self.0, f)
    }
}

crate::serde_as_text!(Rate, "a rate such as \"100Gbps\"");
