//! Operands of comparisons: paths into a result, and quantities.

use serde_json::Value;
use std::fmt;
use std::str::FromStr;
use unrack_units::{Bytes, Rate, Time};

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    Path(JsonPath),
    /// A quantity, with its text as given, for messages.
    Quantity {
        text: String,
        value: f64,
        unit: Option<OperandUnit>,
    },
}

/// Keys into a JSON object, written with dots between them. Elements of a list are addressed by their name or number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonPath(pub Vec<String>);

/// A unit: its dimension, and its size in the base unit of the dimension (picoseconds, bits per second, bytes).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OperandUnit {
    dimension: Dimension,
    scale: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Time,
    Rate,
    Size,
}

const TIME: Dimension = Dimension::Time;

/// Units, by the last word of the keys that use them.
const UNITS: [(&str, OperandUnit); 8] = [
    ("ps", OperandUnit { dimension: TIME, scale: 1.0 }),
    ("ns", OperandUnit { dimension: TIME, scale: 1e3 }),
    ("us", OperandUnit { dimension: TIME, scale: 1e6 }),
    ("ms", OperandUnit { dimension: TIME, scale: 1e9 }),
    ("s", OperandUnit { dimension: TIME, scale: 1e12 }),
    ("bps", OperandUnit { dimension: Dimension::Rate, scale: 1.0 }),
    ("gbps", OperandUnit { dimension: Dimension::Rate, scale: 1e9 }),
    ("bytes", OperandUnit { dimension: Dimension::Size, scale: 1.0 }),
];

impl FromStr for Operand {
    type Err = String;
    fn from_str(word: &str) -> Result<Operand, String> {
        let is_path = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        match is_path {
            true => Ok(Operand::Path(JsonPath(word.split('.').map(String::from).collect()))),
            false => quantity(word),
        }
    }
}

fn quantity(word: &str) -> Result<Operand, String> {
    let of = |value: f64, dimension: Option<Dimension>| {
        let unit = dimension.map(|dimension| OperandUnit { dimension, scale: 1.0 });
        Ok(Operand::Quantity { text: word.into(), value, unit })
    };
    if let Ok(number) = word.parse::<f64>() {
        return of(number, None);
    }
    if let Some(Ok(percent)) = word.strip_suffix('%').map(str::parse::<f64>) {
        return of(percent / 100.0, None);
    }
    if let Ok(time) = word.parse::<Time>() {
        return of(time.as_ps() as f64, Some(TIME));
    }
    if let Ok(rate) = word.parse::<Rate>() {
        return of(rate.as_bps() as f64, Some(Dimension::Rate));
    }
    match word.parse::<Bytes>() {
        Ok(size) => of(size.get() as f64, Some(Dimension::Size)),
        Err(_) => Err(format!("`{word}` is no number, and no quantity such as 5us, 100Gbps, 64KiB or 5%")),
    }
}

impl Operand {
    /// Returns the path; `None` for a quantity.
    pub(super) fn path(&self) -> Option<&JsonPath> {
        match self {
            Operand::Path(path) => Some(path),
            Operand::Quantity { .. } => None,
        }
    }

    /// Returns the number; `None` if `result` has no number at the path.
    pub(super) fn value(&self, result: &Value) -> Option<f64> {
        match self {
            Operand::Path(path) => path.find(result)?.as_f64(),
            Operand::Quantity { value, .. } => Some(*value),
        }
    }

    /// Returns a text with the value of a path, such as `slowdown.p99 is 4.713`; `None` for a quantity.
    pub(super) fn words(&self, result: &Value) -> Option<String> {
        let path = self.path()?;
        Some(match path.find(result).filter(|value| value.is_number()) {
            Some(value) => format!("{path} is {value}"),
            None => format!("{path} is not known (null)"),
        })
    }

    /// Returns the factors that convert both sides of a comparison to one unit. A number without a unit is in the unit of the other side.
    pub(super) fn scales(left: &Operand, right: &Operand) -> Result<[f64; 2], String> {
        if left.path().is_none() && right.path().is_none() {
            return Err(format!(
                "`{left}` and `{right}` are no part of a result: name a path, such as slowdown.p99"
            ));
        }
        let is_bare = |side: &Operand| matches!(side, Operand::Quantity { unit: None, .. });
        match (left.unit(), right.unit()) {
            _ if is_bare(left) || is_bare(right) => Ok([1.0, 1.0]),
            (None, None) => Ok([1.0, 1.0]),
            (Some(a), Some(b)) if a.dimension == b.dimension => Ok([a.scale, b.scale]),
            (a, b) => Err(format!(
                "`{left}` is {}, and `{right}` is {}",
                Dimension::words(a.map(|unit| unit.dimension)),
                Dimension::words(b.map(|unit| unit.dimension))
            )),
        }
    }

    fn unit(&self) -> Option<OperandUnit> {
        match self {
            Operand::Path(path) => path.unit(),
            Operand::Quantity { unit, .. } => *unit,
        }
    }
}

impl JsonPath {
    /// Returns the value at this path.
    pub(crate) fn find<'a>(&self, result: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(result, |value, key| match value {
            Value::Array(items) => {
                let is_named =
                    |item: &&Value| NAMES.iter().any(|name| item.get(name).is_some_and(|of| of == key));
                items.iter().find(is_named).or_else(|| items.get(key.parse::<usize>().ok()?))
            }
            other => other.get(key),
        })
    }

    /// Returns the unit of a value from the last key that ends with a unit: for example, `completion_ns.p99` is in nanoseconds.
    fn unit(&self) -> Option<OperandUnit> {
        let of_key = |key: &String| {
            let mut words = key.rsplit('_');
            let last = words.next()?;
            let is_per_second = words.next() == Some("per");
            UNITS.iter().find(|(name, _)| *name == last && !is_per_second).map(|(_, unit)| *unit)
        };
        self.0.iter().rev().find_map(of_key)
    }
}

/// Keys that identify elements of a list.
const NAMES: [&str; 2] = ["fabric", "name"];

impl Dimension {
    fn words(of: Option<Dimension>) -> &'static str {
        match of {
            Some(Dimension::Time) => "a time",
            Some(Dimension::Rate) => "a rate",
            Some(Dimension::Size) => "a size",
            None => "a number without a unit",
        }
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Operand::Path(path) => path.fmt(f),
            Operand::Quantity { text, .. } => f.write_str(text),
        }
    }
}
