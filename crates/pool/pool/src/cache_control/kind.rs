//! Kinds of memory, by name.

use unrack_units::nearest;

/// Kind of memory, chosen at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    Coherent,
    Incoherent,
    Uncached,
    Model,
}

impl std::fmt::Display for MemoryKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            MemoryKind::Coherent => "coherent",
            MemoryKind::Incoherent => "incoherent",
            MemoryKind::Uncached => "uncached",
            MemoryKind::Model => "model",
        })
    }
}

impl std::str::FromStr for MemoryKind {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<MemoryKind, UnknownMode> {
        match text {
            "coherent" => Ok(MemoryKind::Coherent),
            "incoherent" => Ok(MemoryKind::Incoherent),
            "uncached" => Ok(MemoryKind::Uncached),
            "model" => Ok(MemoryKind::Model),
            _ => Err(UnknownMode(nearest::hint(text, &["coherent", "incoherent", "uncached", "model"]))),
        }
    }
}

/// Error for a name that is not a [`MemoryKind`], with the nearest valid name as a hint.
#[derive(Debug, thiserror::Error)]
#[error("unknown kind of memory access{0}")]
pub struct UnknownMode(String);
