//! Verdict on one published figure, and the sentence that describes the difference.

use crate::compared::{PublishedTable, Row, Verdict, number};
use crate::file::{Figure, Kind, PublishedRelation};
use std::collections::BTreeMap;

/// Judges an order of fabrics. Our order is the same if no group is below an earlier one, and the values within each
/// group differ by at most the tolerance, as a share of the smallest.
pub(crate) fn of_order(groups: &[Vec<String>], ours: &[(String, f64)], tolerance: f64) -> (Verdict, String) {
    let place = |name: &String| groups.iter().position(|group| group.contains(name));
    let swapped = |two: &&[(String, f64)]| place(&two[0].0) > place(&two[1].0);
    let said = |two: &[(String, f64)]| {
        format!("{} ({}) is below {} ({})", two[0].0, number(two[0].1), two[1].0, number(two[1].1))
    };
    let out: Vec<_> = ours.windows(2).filter(swapped).map(said).collect();
    let apart = |group: &Vec<String>| {
        let of_group: Vec<_> = ours.iter().filter(|(name, _)| group.contains(name)).collect();
        let (least, most) = (of_group.first()?, of_group.last()?);
        let above = most.1 / least.1 - 1.0;
        (above > tolerance).then(|| format!("{} is {} above {}", most.0, percent(above), least.0))
    };
    let apart: Vec<String> = groups.iter().filter_map(apart).collect();
    match (out.is_empty(), apart.is_empty()) {
        (true, true) => (Verdict::Met, "The same order.".into()),
        (false, _) => (Verdict::Missed, format!("Another order: {}.", out.join(", "))),
        (true, false) => (Verdict::Missed, format!("Not the same: {}.", apart.join(", "))),
    }
}

/// Returns the verdict on a table, and the range of ratios of each row. The table counts as not measured if any cell was not, and
/// as missed if any cell is outside the tolerance.
pub(crate) fn of_table(
    table: &PublishedTable,
    published: &BTreeMap<String, Vec<f64>>,
    tolerance: f64,
) -> (Verdict, String) {
    let ratios: Vec<(&String, Vec<f64>)> = table.rows.iter().filter_map(ratios).collect();
    if ratios.len() < published.len() {
        return (Verdict::NotMeasured, String::new());
    }
    let said = |(fabric, ratios): &(&String, Vec<f64>)| {
        let (least, most) = range(ratios)?;
        Some(match number(least) == number(most) {
            true => format!("{fabric} {} times", number(least)),
            false => format!("{fabric} {} to {} times", number(least), number(most)),
        })
    };
    let rows: Vec<String> = ratios.iter().filter_map(said).collect();
    let cells = ratios.iter().flat_map(|(_, ratios)| ratios);
    let (all, outside) =
        (cells.clone().count(), cells.filter(|ratio| (**ratio - 1.0).abs() > tolerance).count());
    let within = format!("{} of {all} cells are within the tolerance.", all - outside);
    let verdict = if outside == 0 { Verdict::Met } else { Verdict::Missed };
    (verdict, format!("Ours over published: {}. {within}", rows.join(", ")))
}

/// Returns the ratios of our cells to the published ones; `None` if a cell was not measured.
pub(crate) fn ratios(row: &Row) -> Option<(&String, Vec<f64>)> {
    let ours: Vec<f64> = row.ours.iter().flatten().copied().collect();
    let ratios = || ours.iter().zip(&row.published).map(|(ours, published)| ours / published).collect();
    (ours.len() == row.published.len()).then(|| (&row.fabric, ratios()))
}

pub(crate) fn of_range(published: [f64; 2], ours: &[f64]) -> (Verdict, String) {
    let (least, most) = range(ours).unwrap_or((f64::NAN, f64::NAN));
    if least >= published[0] && most <= published[1] {
        return (Verdict::Met, "Within the published range.".into());
    }
    let mut said = Vec::new();
    if least < published[0] {
        said.push(format!("ours begins {} lower", percent(1.0 - least / published[0])));
    }
    if most > published[1] {
        said.push(format!("ours ends {} higher", percent(most / published[1] - 1.0)));
    }
    (Verdict::Missed, capital(&format!("{}.", said.join(", "))))
}

/// Judges a number. `tolerance` holds for shapes; exact figures and bounds are judged by their digits.
pub(crate) fn of_number(figure: &Figure, published: f64, ours: &[f64], tolerance: f64) -> (Verdict, String) {
    let (least, most) = range(ours).unwrap_or((f64::NAN, f64::NAN));
    match (figure.relation, figure.kind) {
        (PublishedRelation::Equal, kind) => {
            let is_shape = matches!(kind, Kind::Shape | Kind::Context);
            let digits = figure.digits.or((!is_shape).then_some(0));
            let same = |ours: &f64| digits.is_some_and(|to| rounded(*ours, to) == rounded(published, to));
            let close = |ours: &f64| is_shape && (ours / published - 1.0).abs() <= tolerance;
            match () {
                () if ours.iter().all(same) => (Verdict::Met, "The same.".into()),
                () if kind == Kind::Context => (Verdict::Stated, against(published, ours)),
                () if ours.iter().all(|ours| same(ours) || close(ours)) => {
                    (Verdict::Met, against(published, ours))
                }
                () => (Verdict::Missed, against(published, ours)),
            }
        }
        (PublishedRelation::AtMost, _) if most <= published => (Verdict::Met, "Within the bound.".into()),
        (PublishedRelation::AtLeast, _) if least >= published => (Verdict::Met, "Above the bound.".into()),
        (PublishedRelation::AtMost, _) => {
            (Verdict::Missed, format!("{} above the bound.", percent(most / published - 1.0)))
        }
        (PublishedRelation::AtLeast, _) => {
            (Verdict::Missed, format!("{} below the bound.", percent(1.0 - least / published)))
        }
    }
}

pub(crate) fn range(values: &[f64]) -> Option<(f64, f64)> {
    let first = *values.first()?;
    Some(values.iter().fold((first, first), |(lo, hi), value| (lo.min(*value), hi.max(*value))))
}

/// Rounds to `digits` digits after the decimal point; negative numbers count digits before the point.
fn rounded(value: f64, digits: i32) -> String {
    format!("{:.*}", digits.max(0) as usize, value / 10f64.powi((-digits).max(0)))
}

fn against(published: f64, ours: &[f64]) -> String {
    let one = |ours: f64| match ours / published - 1.0 {
        more if more.abs() < 0.005 => "the same within 0.5 %".to_string(),
        more if more > 0.0 => format!("{} higher", percent(more)),
        less => format!("{} lower", percent(-less)),
    };
    let said: Vec<String> = ours.iter().map(|value| one(*value)).collect();
    format!("Ours is {}.", said.join(" to "))
}

fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}
