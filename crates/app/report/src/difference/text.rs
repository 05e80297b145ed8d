//! Text of a comparison of two run folders, for a terminal.

use super::{Difference, DifferentResult, DifferentText, Noise};
use crate::table::Table;
use crate::words::count;

/// Returns tables of the differences, and a line about noise. Numbers that differ within noise are counted but not listed.
pub(super) fn text(difference: &Difference) -> String {
    let mut text = String::new();
    for (name, side) in [("A", &difference.a), ("B", &difference.b)] {
        text += &format!("{name}  {}: {}\n", side.folder.display(), side.kind.name());
    }
    text += &texts("scenario", &difference.scenario);
    text += &texts("build", &difference.build);
    text += &results(difference);
    text + &format!("\nnoise: {}\n", difference.noise)
}

fn texts(name: &str, texts: &[DifferentText]) -> String {
    if texts.is_empty() {
        return format!("\n{name}: the same\n");
    }
    let mut table = Table::default().header(&[name, "A", "B"]);
    for DifferentText { key, a, b } in texts {
        table.row(
            [Some(key), a.as_ref(), b.as_ref()].map(|cell| cell.cloned().unwrap_or("-".into())).to_vec(),
        );
    }
    format!("\n{}", table.text())
}

fn results(difference: &Difference) -> String {
    let (within, listed): (Vec<_>, Vec<_>) =
        difference.results.iter().partition(|result| result.noise == Noise::Within);
    let mut text = "\n".to_string();
    if !listed.is_empty() {
        let mut table = Table::default().header(&["results", "A", "B", "change", "more than noise"]);
        listed.iter().for_each(|result| table.row(cells(result)));
        text += &table.text();
    }
    if !within.is_empty() {
        text += &format!("results: {} values differ within noise\n", count(within.len() as u64));
    }
    text + &format!("results: {} values are the same\n", count(difference.unchanged as u64))
}

fn cells(result: &DifferentResult) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or("-".into(), number);
    let noise = match result.noise {
        Noise::More => "yes",
        Noise::Within => "no",
        Noise::Unknown => "not known",
    };
    vec![result.value.clone(), shown(result.a), shown(result.b), change(result.change), noise.into()]
}

/// Formats a number to six significant digits, so that small differences are visible. Whole numbers are written in full.
fn number(value: f64) -> String {
    const DIGITS: i32 = 6;
    if value.fract() == 0.0 && value.abs() < 1e15 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", count(value.abs() as u64));
    }
    let first_digit = value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", (DIGITS - 1 - first_digit).max(0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

fn change(change: Option<f64>) -> String {
    match change.map(|change| change * 100.0) {
        None => "-".into(),
        Some(percent) if percent != 0.0 && percent.abs() < 0.01 => "below 0.01 %".into(),
        Some(percent) => format!("{percent:+.2} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_six_digits_and_changes_their_sign() {
        let cases =
            [(0.0, "0"), (1234567.0, "1,234,567"), (-2.0, "-2"), (1.5, "1.5"), (1234.567891, "1234.57")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(0.000_123_456_78), "0.000123457");
        let cases = [(0.5, "+50.00 %"), (-0.125, "-12.50 %"), (1e-6, "below 0.01 %"), (0.0, "+0.00 %")];
        for (value, text) in cases {
            assert_eq!(change(Some(value)), text);
        }
    }
}
