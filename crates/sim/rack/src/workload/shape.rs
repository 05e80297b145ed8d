//! Patterns and arrivals of messages: words, or tables where a word needs a number.

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use unrack_units::Fraction;

/// Pattern of sources and destinations.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pattern {
    /// All-to-all: each message has its own source and destination, all equally likely.
    #[default]
    AllToAll,
    /// Permutation: each source has one destination, each destination one source, for the whole run.
    Permutation,
    /// Incast: all sources ask one destination, the last node that can be one; or `fan_in` of them, evenly spread.
    Incast { fan_in: Option<u32> },
    /// Rack-local: this share of the messages of each source stays in its rack; the others go to other racks.
    RackLocal { fraction: Fraction },
    /// Hot spots: destinations by Zipf's law with this exponent.
    HotSpots { exponent: f64 },
}

/// Distribution of the times at which messages are submitted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Arrivals {
    /// Independent arrivals: gaps are exponential.
    #[default]
    Poisson,
    /// Equal gaps.
    Fixed,
    /// Bursts: gaps are log-normal, and `sigma` is the standard deviation of their logarithm.
    LogNormal { sigma: f64 },
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum PatternWord {
    AllToAll,
    Permutation,
    Incast,
    RackLocal,
    HotSpots,
}

/// Table that stands for a [`Pattern`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PatternTable {
    /// `all-to-all`, `permutation`, `incast`, `rack-local` or `hot-spots`.
    kind: PatternWord,
    /// Sources that ask, with `incast`. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    fan_in: Option<u32>,
    /// Share of the messages of each source that stays in its rack, with `rack-local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<Fraction>,
    /// Exponent of Zipf's law, with `hot-spots`.
    #[serde(skip_serializing_if = "Option::is_none")]
    exponent: Option<f64>,
}

impl From<PatternWord> for PatternTable {
    fn from(kind: PatternWord) -> PatternTable {
        PatternTable { kind, fan_in: None, fraction: None, exponent: None }
    }
}

impl From<Pattern> for PatternTable {
    fn from(pattern: Pattern) -> PatternTable {
        match pattern {
            Pattern::AllToAll => PatternWord::AllToAll.into(),
            Pattern::Permutation => PatternWord::Permutation.into(),
            Pattern::Incast { fan_in } => PatternTable { fan_in, ..PatternWord::Incast.into() },
            Pattern::RackLocal { fraction } => {
                PatternTable { fraction: Some(fraction), ..PatternWord::RackLocal.into() }
            }
            Pattern::HotSpots { exponent } => {
                PatternTable { exponent: Some(exponent), ..PatternWord::HotSpots.into() }
            }
        }
    }
}

impl PatternTable {
    fn pattern<E: Error>(self) -> Result<Pattern, E> {
        use PatternWord::*;
        let PatternTable { kind, fan_in, fraction, exponent } = self;
        match (kind, fan_in, fraction, exponent) {
            (AllToAll, None, None, None) => Ok(Pattern::AllToAll),
            (Permutation, None, None, None) => Ok(Pattern::Permutation),
            (Incast, fan_in, None, None) => Ok(Pattern::Incast { fan_in }),
            (RackLocal, None, Some(fraction), None) => Ok(Pattern::RackLocal { fraction }),
            (HotSpots, None, None, Some(exponent)) => Ok(Pattern::HotSpots { exponent }),
            (RackLocal, ..) => Err(E::custom("write { kind = \"rack-local\", fraction = \"80%\" }")),
            (HotSpots, ..) => Err(E::custom("write { kind = \"hot-spots\", exponent = 1.2 }")),
            (Incast, ..) => Err(E::custom("`incast` has no key but `fan_in`")),
            (AllToAll | Permutation, ..) => Err(E::custom("this pattern has no keys")),
        }
    }
}

crate::schema::schema_as_word_or_table!(Pattern, PatternTable);
crate::schema::schema_as_word_or_table!(Arrivals, ArrivalsTable);

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let table = PatternTable::from(*self);
        match self {
            Pattern::AllToAll | Pattern::Permutation | Pattern::Incast { fan_in: None } => {
                table.kind.serialize(serializer)
            }
            _ => table.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pattern, D::Error> {
        struct WordOrTable;
        impl<'de> Visitor<'de> for WordOrTable {
            type Value = Pattern;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str(
                    "a word such as \"all-to-all\", or a table such as { kind = \"incast\", fan_in = 8 }",
                )
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<Pattern, E> {
                PatternTable::from(PatternWord::deserialize(StrDeserializer::new(word))?).pattern()
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Pattern, A::Error> {
                PatternTable::deserialize(MapAccessDeserializer::new(map))?.pattern()
            }
        }
        deserializer.deserialize_str(WordOrTable)
    }
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum ArrivalsWord {
    Poisson,
    Fixed,
    LogNormal,
}

/// Table that stands for [`Arrivals`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ArrivalsTable {
    /// `poisson`, `fixed` or `log-normal`.
    kind: ArrivalsWord,
    /// Standard deviation of the logarithm of gaps, with `log-normal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    sigma: Option<f64>,
}

impl ArrivalsTable {
    fn arrivals<E: Error>(self) -> Result<Arrivals, E> {
        match (self.kind, self.sigma) {
            (ArrivalsWord::Poisson, None) => Ok(Arrivals::Poisson),
            (ArrivalsWord::Fixed, None) => Ok(Arrivals::Fixed),
            (ArrivalsWord::LogNormal, Some(sigma)) => Ok(Arrivals::LogNormal { sigma }),
            (ArrivalsWord::LogNormal, None) => Err(E::custom("write { kind = \"log-normal\", sigma = 2.0 }")),
            _ => Err(E::custom("`sigma` goes with `log-normal`")),
        }
    }
}

impl Serialize for Arrivals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Arrivals::Poisson => ArrivalsWord::Poisson.serialize(serializer),
            Arrivals::Fixed => ArrivalsWord::Fixed.serialize(serializer),
            Arrivals::LogNormal { sigma } => {
                ArrivalsTable { kind: ArrivalsWord::LogNormal, sigma: Some(sigma) }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Arrivals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Arrivals, D::Error> {
        struct WordOrTable;
        impl<'de> Visitor<'de> for WordOrTable {
            type Value = Arrivals;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str(
                    "\"poisson\", \"fixed\" or a table such as { kind = \"log-normal\", sigma = 2.0 }",
                )
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<Arrivals, E> {
                let kind = ArrivalsWord::deserialize(StrDeserializer::new(word))?;
                ArrivalsTable { kind, sigma: None }.arrivals()
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Arrivals, A::Error> {
                ArrivalsTable::deserialize(MapAccessDeserializer::new(map))?.arrivals()
            }
        }
        deserializer.deserialize_str(WordOrTable)
    }
}
