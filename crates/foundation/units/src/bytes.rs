//! Sizes in bytes.

use crate::number::{UnitError, Units};

/// Size in whole bytes. Sums that do not fit saturate. `KiB`, `MiB`, `GiB` are powers of 1024; `kB`, `MB`, `GB` are powers of 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// Creates a size of `bytes`.
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }
    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the size with the same number in the corresponding binary unit, for example 64MiB for 64MB, because people who write a
    /// decimal unit often mean the binary one. Returns `None` unless the size is a whole number of a decimal unit.
    pub fn in_binary_unit(self) -> Option<Bytes> {
        let units = [(1_000_000_000_000, 40), (1_000_000_000, 30), (1_000_000, 20), (1_000, 10)];
        let (decimal, bits) = units.into_iter().find(|(decimal, _)| self.0.is_multiple_of(*decimal))?;
        (self.0 > 0).then(|| (self.0 / decimal).checked_mul(1 << bits).map(Bytes)).flatten()
    }

    /// Returns the size that the user may have meant, if only multiples of `unit` are allowed: the same number in a binary unit if that is
    /// a multiple, otherwise the next larger multiple.
    pub fn in_whole(self, unit: Bytes) -> Bytes {
        let whole = |size: &Bytes| size.0.is_multiple_of(unit.0);
        let next = self.0.max(1).checked_next_multiple_of(unit.0).unwrap_or(unit.0);
        self.in_binary_unit().filter(whole).unwrap_or(Bytes(next))
    }
}

impl std::ops::Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl std::ops::Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}

pub(crate) const UNITS: Units = Units {
    table: &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)],
    aliases: &[
        ("TiB", 1 << 40),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
    ],
    foreign: &[
        ("k", "KiB", 1),
        ("K", "KiB", 1),
        ("m", "MiB", 1),
        ("M", "MiB", 1),
        ("g", "GiB", 1),
        ("G", "GiB", 1),
        ("T", "TiB", 1),
        ("Ki", "KiB", 1),
        ("Mi", "MiB", 1),
        ("Gi", "GiB", 1),
        ("byte", "B", 1),
        ("bytes", "B", 1),
    ],
    base: "bytes",
    example: "64MiB",
};

impl std::str::FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Bytes, UnitError> {
        UNITS.parse(text).map(Bytes)
    }
}

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        UNITS.print(self.0, f)
    }
}

crate::serde_as_text!(Bytes, "a size such as \"64B\" or \"4KiB\"");
