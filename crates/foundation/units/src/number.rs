//! Decimal numbers with a unit, scaled exactly to whole base units.

use crate::nearest::nearest;

/// Reason why a quantity could not be parsed. The text states which notation would have been accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    #[error("`{text}` has no unit: write for example `{example}`")]
    NoUnit { text: String, example: String },
    #[error("`{text}` is not a quantity: write for example `{example}`")]
    NotANumber { text: String, example: &'static str },
    /// Unknown unit. `hint` names the quantity that was probably meant, or otherwise the known units.
    #[error("`{unit}` in `{text}` is not a known unit{hint}")]
    UnknownUnit { text: String, unit: String, hint: String },
    #[error("`{text}` is not a whole number of {base}")]
    NotWhole { text: String, base: &'static str },
    #[error("`{text}` is too large")]
    TooLarge { text: String },
    #[error("`{text}` is outside 0% to 100%{hint}")]
    NotAFraction { text: String, hint: String },
}

/// A system of units: names with their sizes in base units, largest first.
pub(crate) struct Units {
    pub table: &'static [(&'static str, u64)],
    /// Names that are accepted when parsed, but never printed.
    pub aliases: &'static [(&'static str, u64)],
    /// Notations of other programs: each with the corresponding unit here and a factor.
    pub foreign: &'static [(&'static str, &'static str, u32)],
    pub base: &'static str,
    pub example: &'static str,
}

impl Units {
    /// Parses `"<decimal><unit>"`, without rounding.
    pub(crate) fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let trimmed = text.trim();
        let split =
            trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
        let (number, unit) = (trimmed[..split].replace('_', ""), trimmed[split..].trim());
        if number.is_empty() {
            return Err(UnitError::NotANumber { text: text.into(), example: self.example });
        }
        if unit.is_empty() {
            return match number.bytes().all(|b| b == b'0') {
                true => Ok(0),
                false => Err(UnitError::NoUnit { text: text.into(), example: self.with_unit(&number) }),
            };
        }
        let scale = self.scale(unit).ok_or_else(|| UnitError::UnknownUnit {
            text: text.into(),
            unit: unit.into(),
            hint: self.hint(&number, unit),
        })?;
        self.scaled(text, &number, scale)
    }

    /// Formats a value in the largest unit in which three decimals are exact, or otherwise in the smallest unit.
    pub(crate) fn print(&self, value: u64, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let exact = |scale: u64| value >= scale && (value as u128 * 1000).is_multiple_of(scale as u128);
        let smallest = self.table[self.table.len() - 1];
        let (unit, scale) = *self.table.iter().find(|(_, scale)| exact(*scale)).unwrap_or(&smallest);
        let thousandths = value as u128 * 1000 / scale as u128;
        let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        f.pad(&format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.')))
    }

    /// Returns `number` with the unit of the example, as a suggestion for a number without a unit.
    pub(crate) fn with_unit(&self, number: &str) -> String {
        format!("{number}{}", self.example.trim_start_matches(|c: char| c.is_ascii_digit()))
    }

    fn scale(&self, unit: &str) -> Option<u64> {
        self.named().find(|(name, _)| *name == unit).map(|(_, scale)| scale)
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.table.iter().chain(self.aliases).copied()
    }

    /// Returns a hint for a number with an unknown unit: the quantity that was probably meant, or otherwise the known units.
    fn hint(&self, number: &str, unit: &str) -> String {
        match self.meant(number, unit) {
            Some(meant) => format!("; did you mean `{meant}`?"),
            None => {
                let names: Vec<_> = self.table.iter().rev().map(|(name, _)| *name).collect();
                format!(": use one of {}", names.join(", "))
            }
        }
    }

    fn meant(&self, number: &str, unit: &str) -> Option<String> {
        let foreign = self.foreign.iter().find(|(name, ..)| *name == unit);
        let (name, times) = match foreign {
            Some((_, name, times)) => (*name, *times),
            None => (self.near(unit)?, 1),
        };
        // A quantity is suggested only if the parser would accept it.
        let number = match times {
            1 => number.to_string(),
            times => (number.parse::<f64>().ok()? * f64::from(times)).to_string(),
        };
        let meant = format!("{number}{name}");
        self.parse(&meant).is_ok().then_some(meant)
    }

    /// Returns the known unit that is nearest to a misspelt one. In a unit of at most two letters, only case may differ, because a change
    /// of one letter would give another unit.
    fn near(&self, unit: &str) -> Option<&'static str> {
        let names: Vec<_> = self.named().map(|(name, _)| name).collect();
        let near = nearest(unit, &names)?;
        (unit.chars().count() > 2 || near.to_lowercase() == unit.to_lowercase()).then_some(near)
    }

    fn scaled(&self, text: &str, number: &str, scale: u64) -> Result<u64, UnitError> {
        let not_a_number = || UnitError::NotANumber { text: text.into(), example: self.example };
        let too_large = || UnitError::TooLarge { text: text.into() };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let fraction = fraction.trim_end_matches('0');
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(not_a_number());
        }
        if fraction.len() > 18 || whole.len() > 20 {
            return Err(too_large());
        }
        let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| not_a_number())?;
        let divisor = 10u128.pow(fraction.len() as u32);
        let product = digits.checked_mul(scale as u128).ok_or_else(too_large)?;
        if product % divisor != 0 {
            return Err(UnitError::NotWhole { text: text.into(), base: self.base });
        }
        u64::try_from(product / divisor).map_err(|_| too_large())
    }
}
