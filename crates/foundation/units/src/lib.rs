//! Quantities in the notation that people use: time, sizes, rates and shares, with one parser and one formatter.
//!
//! | type | value | notation |
//! |---|---|---|
//! | [`Time`] | whole picoseconds (213 days fit; a run ends after 106) | `10ns`, `2.56ns`, `3us`, `1.5ms`, `2s` |
//! | [`Bytes`] | whole bytes | `64B`, `4KiB`, `1.5GiB`, `64kB` |
//! | [`Rate`] | bits per second | `100Gbps`, `800Mbps` |
//! | [`Fraction`] | 0 to 1 | `25%`, `0.25` |
//! | [`Share`] | a [`Fraction`] of something, or [`Bytes`] | `25%`, `64MiB` |
//!
//! Every type parses its notation and formats to it without loss: `parse(print(x)) == x`. A value that is not a whole number of the base
//! unit is rejected, never rounded. Every crate prints its results with this crate, therefore two related items are here too: [`nearest`]
//! finds the valid word that is closest to a wrong one, and [`Warning`] explains why a result needs care.
#![forbid(unsafe_code)]

mod bytes;
pub mod nearest;
mod number;
mod rate;
mod share;
mod time;
mod warning;

pub use bytes::Bytes;
pub use number::UnitError;
pub use rate::Rate;
pub use share::{Fraction, Share};
pub use time::Time;
pub use warning::Warning;

/// Implements serde as text through `Display` and `FromStr`, so that files contain units, and a schema that describes this. Types that can
/// be written without a unit may also be numbers in files; readers pass such numbers on as text.
macro_rules! serde_as_text {
    ($type:ty, $expecting:literal) => {
        crate::serde_as_text!($type, $expecting, "string");
    };
    ($type:ty, $expecting:literal, $types:tt) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                d.deserialize_str(Text)
            }
        }
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": $types })
            }
        }
    };
}
pub(crate) use serde_as_text;
