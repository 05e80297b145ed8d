use crate::number::{UnitError, Units};

/// A size in whole bytes. `KiB`, `MiB`, `GiB` are powers of 1024; `kB`, `MB`, `GB` of 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    pub const ZERO: Bytes = Bytes(0);

    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl std::ops::Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl std::ops::Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}

const UNITS: Units = Units {
    table: &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)],
    aliases: &[
        ("TiB", 1 << 40),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
    ],
    base: "bytes",
    example: "64KiB",
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
