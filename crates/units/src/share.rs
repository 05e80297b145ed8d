use crate::Bytes;
use crate::number::UnitError;

/// A number from 0 to 1, written `25%` or `0.25`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// `None` outside 0..=1.
    pub fn new(value: f64) -> Option<Fraction> {
        (0.0..=1.0).contains(&value).then_some(Fraction(value))
    }
    pub fn get(self) -> f64 {
        self.0
    }
    /// This share of `whole`, rounded to the nearest byte.
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
        Fraction::new(value / scale).ok_or_else(|| UnitError::NotAFraction { text: text.into() })
    }
}

impl std::fmt::Display for Fraction {
    /// As a percentage if that reads back as the same number, else as a plain number.
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let percent = (self.0 * 100.0 * 1e9).round() / 1e9;
        if percent / 100.0 == self.0 { f.pad(&format!("{percent}%")) } else { f.pad(&format!("{}", self.0)) }
    }
}

crate::serde_as_text!(Fraction, "a share such as \"25%\"");

/// How much of something: a fraction of it, or a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Share {
    Fraction(Fraction),
    Size(Bytes),
}

impl Share {
    /// The size meant, given the whole.
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
        match text.trim().ends_with('B') {
            true => text.parse().map(Share::Size),
            false => text.parse().map(Share::Fraction),
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

crate::serde_as_text!(Share, "a share such as \"25%\" or a size such as \"64MiB\"");
