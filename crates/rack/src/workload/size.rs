//! How large messages are.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use unrack_units::Bytes;

use super::FileRef;

/// Distributions that come with the program, by name. Their points and sources are in the room of
/// workloads.
pub const BUILT_IN_CDFS: &[&str] =
    &["websearch", "datamining", "imc10", "hadoop", "spark", "sparksql", "graphlab", "memcached"];

/// Always the same, or drawn from a distribution.
#[derive(Debug, Clone, PartialEq)]
pub enum Size {
    /// `"64B"`.
    Fixed(Bytes),
    /// `{ cdf = "websearch" }`: one of [`BUILT_IN_CDFS`].
    BuiltIn(String),
    /// `{ cdf_file = "sizes.toml", unit = "bytes" }`.
    File { file: FileRef, unit: SizeUnit },
}

/// What the sizes of a distribution count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizeUnit {
    #[default]
    Bytes,
    /// Of 1460 bytes.
    Packets,
}

/// A [`Size`] that is a table, as written.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Distribution {
    #[serde(skip_serializing_if = "Option::is_none")]
    cdf: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cdf_file: Option<FileRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<SizeUnit>,
}

impl Distribution {
    fn size<E: Error>(self) -> Result<Size, E> {
        match (self.cdf, self.cdf_file, self.unit) {
            (Some(cdf), None, None) => Ok(Size::BuiltIn(cdf)),
            (None, Some(file), unit) => Ok(Size::File { file, unit: unit.unwrap_or_default() }),
            (Some(_), None, Some(_)) => {
                Err(E::custom("`unit` goes with `cdf_file`; a built-in `cdf` has its own"))
            }
            _ => Err(E::custom("give either `cdf` or `cdf_file`")),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let none = Distribution::default();
        match self.clone() {
            Size::Fixed(bytes) => bytes.serialize(serializer),
            Size::BuiltIn(cdf) => Distribution { cdf: Some(cdf), ..none }.serialize(serializer),
            Size::File { file, unit } => {
                Distribution { cdf_file: Some(file), unit: Some(unit), ..none }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct TextOrTable;
        impl<'de> Visitor<'de> for TextOrTable {
            type Value = Size;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a size such as \"64B\", or a distribution such as { cdf = \"websearch\" }")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map(Size::Fixed).map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Size, A::Error> {
                Distribution::deserialize(MapAccessDeserializer::new(map))?.size()
            }
        }
        deserializer.deserialize_str(TextOrTable)
    }
}
