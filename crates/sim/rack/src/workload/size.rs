//! Sizes of messages.

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use unrack_units::Bytes;

use super::FileRef;

/// Names of the built-in distributions. The workload crate holds their points and sources.
pub const BUILT_IN_CDFS: &[&str] =
    &["websearch", "datamining", "imc10", "hadoop", "spark", "sparksql", "graphlab", "memcached"];

/// Size of messages: fixed, or drawn from a distribution.
#[derive(Debug, Clone, PartialEq)]
pub enum Size {
    /// The same size for all messages, for example `"64B"`.
    Fixed(Bytes),
    /// Built-in distribution, one of [`BUILT_IN_CDFS`], for example `{ cdf = "websearch" }`.
    BuiltIn(String),
    /// Distribution in a file, for example `{ cdf_file = "sizes.toml", unit = "bytes" }`.
    File { file: FileRef, unit: SizeUnit },
    /// Pareto distribution, for example `{ pareto = 1.05, mean = "100kB", maximum = "1GB" }`.
    Pareto { shape: f64, scale: ParetoScale, maximum: Option<Bytes> },
}

/// Scale of a Pareto distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParetoScale {
    /// Smallest size, given by the key `minimum`.
    Minimum(Bytes),
    /// Mean that the distribution would have without a maximum, given by the key `mean`.
    Mean(Bytes),
}

/// Unit of the sizes in the file of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SizeUnit {
    #[default]
    Bytes,
    /// Packets of 1460 bytes.
    Packets,
}

/// Table form of a [`Size`] in a scenario, as written.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Distribution {
    /// Name of a built-in distribution, such as `websearch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cdf: Option<String>,
    /// File that holds a distribution. Its name is relative to the file that names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cdf_file: Option<FileRef>,
    /// Unit of the sizes in `cdf_file`: `bytes`, or `packets` of 1460 bytes. Default bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<SizeUnit>,
    /// Shape of a Pareto distribution, which also needs a `minimum` or a `mean`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pareto: Option<f64>,
    /// Smallest size of the Pareto distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum: Option<Bytes>,
    /// Mean that the Pareto distribution would have without a maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<Bytes>,
    /// Largest size of the Pareto distribution. Default: 4294967295B.
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum: Option<Bytes>,
}

impl Distribution {
    fn size<E: Error>(self) -> Result<Size, E> {
        let Distribution { cdf, cdf_file, unit, pareto, minimum, mean, maximum } = self;
        if pareto.is_none() && (minimum, mean, maximum) != (None, None, None) {
            return Err(E::custom("`minimum`, `mean` and `maximum` go with `pareto`"));
        }
        match (cdf, cdf_file, pareto, unit) {
            (Some(cdf), None, None, None) => Ok(Size::BuiltIn(cdf)),
            (None, Some(file), None, unit) => Ok(Size::File { file, unit: unit.unwrap_or_default() }),
            (None, None, Some(shape), None) => match (minimum, mean) {
                (Some(bytes), None) => {
                    Ok(Size::Pareto { shape, scale: ParetoScale::Minimum(bytes), maximum })
                }
                (None, Some(bytes)) => Ok(Size::Pareto { shape, scale: ParetoScale::Mean(bytes), maximum }),
                _ => Err(E::custom("give either `minimum` or `mean` beside `pareto`, its shape")),
            },
            (Some(_), None, None, Some(_)) => {
                Err(E::custom("`unit` goes with `cdf_file`; a built-in `cdf` has its own"))
            }
            (None, None, Some(_), Some(_)) => Err(E::custom("`unit` goes with `cdf_file`")),
            _ => Err(E::custom("give one of `cdf`, `cdf_file` and `pareto`")),
        }
    }
}

crate::schema::schema_as_word_or_table!(Size, Distribution);

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let none = Distribution::default();
        match self.clone() {
            Size::Fixed(bytes) => bytes.serialize(serializer),
            Size::BuiltIn(cdf) => Distribution { cdf: Some(cdf), ..none }.serialize(serializer),
            Size::File { file, unit } => {
                Distribution { cdf_file: Some(file), unit: Some(unit), ..none }.serialize(serializer)
            }
            Size::Pareto { shape, scale, maximum } => {
                let (minimum, mean) = match scale {
                    ParetoScale::Minimum(bytes) => (Some(bytes), None),
                    ParetoScale::Mean(bytes) => (None, Some(bytes)),
                };
                Distribution { pareto: Some(shape), minimum, mean, maximum, ..none }.serialize(serializer)
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
