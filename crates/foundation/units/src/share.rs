//! Shares of a quantity: fractions from 0 to 1, or sizes.

use crate::Bytes;
use crate::bytes::UNITS;
use crate::number::UnitError;

/// Number from 0 to 1, written as `25%` or `0.25`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// Creates a fraction. Returns `None` if `value` is outside 0..=1.
    pub fn new(value: f64) -> Option<Fraction> {
        (0.0..=1.0).contains(&value).then_some(Fraction(value))
    }
    /// Returns the number, 0 to 1.
    pub fn get(self) -> f64 {
        self.0
    }
    /// Returns this fraction of `whole`, rounded to the nearest byte.
    pub fn of(self, whole: Bytes) -> Bytes {
        Bytes::new((self.0 * whole.get() as f64).round() as u64)
    }
}

impl std::str::FromStr for Fraction {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Fraction, UnitError> {
        let trimmed = text.trim();
        let (number, scale) = match trimmed.strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (trimmed, 1.0),
        };
        let not_a_number = || UnitError::NotANumber { text: text.into(), example: "25%" };
        let value: f64 = number.parse().map_err(|_| not_a_number())?;
        Fraction::new(value / scale).ok_or_else(|| UnitError::NotAFraction {
            text: text.into(),
            hint: match percent(number) {
                Some(meant) if scale == 1.0 => format!("; did you mean `{meant}`?"),
                _ => String::new(),
            },
        })
    }
}

/// Returns `25` as `25%`, if it is a plausible percentage. Below 2, a multiple of the whole may have been meant as well.
fn percent(number: &str) -> Option<String> {
    let percent: f64 = number.parse().ok()?;
    (2.0..=100.0).contains(&percent).then(|| format!("{number}%"))
}

impl std::fmt::Display for Fraction {
    /// Formats a percentage if that parses to the same number, otherwise a plain number.
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let percent = (self.0 * 100.0 * 1e9).round() / 1e9;
        if percent / 100.0 == self.0 { f.pad(&format!("{percent}%")) } else { f.pad(&format!("{}", self.0)) }
    }
}

crate::serde_as_text!(Fraction, "a share such as \"25%\"", ["string", "number"]);

/// Share of a quantity, given as a fraction of it or as a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Share {
    Fraction(Fraction),
    Size(Bytes),
}

impl Share {
    /// Returns the size of the share of `whole`.
    pub fn of(self, whole: Bytes) -> Bytes {
        match self {
            Share::Fraction(fraction) => fraction.of(whole),
            Share::Size(size) => size,
        }
    }
}

impl std::str::FromStr for Share {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Share, UnitError> {
        let trimmed = text.trim();
        let has_unit = trimmed.starts_with(|c: char| c.is_ascii_digit())
            && trimmed.ends_with(|c: char| c.is_alphabetic());
        match text.parse() {
            _ if has_unit => text.parse().map(Share::Size),
            Err(UnitError::NotAFraction { text, .. }) if !trimmed.ends_with('%') => {
                let size = UNITS.with_unit(trimmed);
                let hint = match percent(trimmed) {
                    Some(percent) => format!("; did you mean `{percent}`, or a size such as `{size}`?"),
                    None => format!("; did you mean a size such as `{size}`?"),
                };
                Err(UnitError::NotAFraction { text, hint })
            }
            fraction => fraction.map(Share::Fraction),
        }
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Share::Fraction(fraction) => fraction.fmt(f),
            Share::Size(size) => size.fmt(f),
        }
    }
}

crate::serde_as_text!(Share, "a share such as \"25%\" or a size such as \"64MiB\"", ["string", "number"]);
