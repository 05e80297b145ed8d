//! Patterns and arrivals of messages. A scenario writes them as a word, or as a table if the word needs a number.

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use unrack_units::Fraction;

/// Pattern by which sources and destinations are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pattern {
    /// All-to-all: the source and the destination of each message are drawn independently, and all pairs are equally
    /// likely.
    #[default]
    AllToAll,
    /// Permutation: for the whole run, each source has one destination, and each destination has one source.
    Permutation,
    /// Incast: all sources, or `fan_in` evenly spread ones, send requests to one destination. It is the last possible
    /// node.
    Incast { fan_in: Option<u32> },
    /// Rack-local: this fraction of the messages of each source stays in its rack, and the rest goes to other racks.
    RackLocal { fraction: Fraction },
    /// Hot spots: destinations are drawn by Zipf's law with this exponent.
    HotSpots { exponent: f64 },
}

/// Distribution of the times at which messages are submitted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Arrivals {
    /// Independent arrivals: the gaps between them have an exponential distribution.
    #[default]
    Poisson,
    /// Equal gaps.
    Fixed,
    /// Bursts: the gaps have a log-normal distribution. `sigma` is the standard deviation of the logarithm of a gap.
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

/// Table form of a [`Pattern`] in a scenario.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PatternTable {
    /// `all-to-all`, `permutation`, `incast`, `rack-local` or `hot-spots`.
    kind: PatternWord,
    /// With `incast`, the number of sources that send. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    fan_in: Option<u32>,
    /// With `rack-local`, the fraction of the messages of each source that stays in its rack.
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<Fraction>,
    /// With `hot-spots`, the exponent of Zipf's law.
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

/// Table form of [`Arrivals`] in a scenario.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ArrivalsTable {
    /// `poisson`, `fixed` or `log-normal`.
    kind: ArrivalsWord,
    /// With `log-normal`, the standard deviation of the logarithm of the gaps.
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
