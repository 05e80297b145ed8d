//! Comparison of published figures with ours: a verdict, and a sentence that describes the difference.

use crate::cause::switched;
use crate::charts::leading_number;
use crate::compared::{Compared, PublishedTable, Row, Values, Verdict, number, shown};
use crate::computed::Computed;
use crate::file::{
    Crossing, Figure, Kind, Published, PublishedRelation, SampleChoice, Select, Study, StudyScale,
};
use crate::grid::{StudyPoint, points};
use crate::judge::{of_number, of_order, of_range, of_table, range};
use crate::programs::withheld;
use crate::run::{Measured, StudyResults};
use crate::seeds::OverSeeds;
use crate::stored::{names, stored};
use std::collections::BTreeMap;
use unrack_units::Warning;

/// Compares all published figures of a study with ours.
pub fn compare(
    study: &Study,
    results: &StudyResults,
    computed: &Computed,
    scale: StudyScale,
) -> Vec<Compared> {
    let planned = points(study, StudyScale::Full);
    let seeds = results.by_seed();
    let one = |(figure, name): (&Figure, String)| {
        let compared = compared(study, figure, (results, &seeds), computed);
        let held = stored().band(&study.name, scale, &name, &compared.values);
        let compared = Compared { stored: held.filter(|_| compared.verdict.is_measured()), ..compared };
        match compared.verdict {
            Verdict::NotMeasured if scale == StudyScale::Quick && is_left_out(figure, &planned, results) => {
                Compared { verdict: Verdict::LeftOut, ..compared }
            }
            Verdict::NotMeasured
                if figure.computed.is_some() && results.programs.len() < study.programs.len() =>
            {
                Compared { verdict: Verdict::LeftOut, ..compared }
            }
            Verdict::NotMeasured if figure.computed.is_some() => match withheld(&results.programs) {
                Some(why) => {
                    let sentence = format!("{why} {}", compared.sentence).trim().to_string();
                    Compared { verdict: Verdict::Withheld, sentence, ..compared }
                }
                None => compared,
            },
            _ => compared,
        }
    };
    study.figures.iter().zip(names(study)).map(one).collect()
}

/// Returns whether this figure makes the run fail: it was not measured, it is missed without a demonstrated cause, or our value has
/// left its stored band. A quick run has fewer messages than the paper; there, a missed shape is no failure.
pub fn fails(figure: &Compared, scale: StudyScale) -> bool {
    let has_changed = figure.stored.as_ref().is_some_and(|stored| !stored.held);
    let is_wrong = match figure.verdict {
        Verdict::NotMeasured => true,
        Verdict::Missed => scale == StudyScale::Full || figure.kind != Kind::Shape,
        _ => false,
    };
    has_changed || is_wrong
}

/// Returns whether a quick run lacks parts of this figure: points that only a full run has, or a statistic over a kind of messages
/// that do not occur in a run this short.
fn is_left_out(figure: &Figure, planned: &[StudyPoint], results: &StudyResults) -> bool {
    let select = &figure.select;
    let is_asked = |grid: &str, labels: &BTreeMap<String, String>| {
        let over = select.labels.iter().filter(|(axis, _)| !select.over.contains_key(*axis));
        grid == select.grid && over.into_iter().all(|(axis, value)| labels.get(axis) == Some(value))
    };
    let was_run = |point: &StudyPoint| {
        results.points.iter().any(|run| run.grid == point.grid && run.labels == point.labels)
    };
    let missing = planned.iter().any(|point| is_asked(&point.grid, &point.labels) && !was_run(point));
    let run: Vec<_> = results.points.iter().filter(|point| is_asked(&point.grid, &point.labels)).collect();
    let has_nothing = run.iter().any(|point| point.has_nothing_at(&select.value));
    // If no point that was run has this value, the value does not exist.
    let exists =
        has_nothing || run.is_empty() || run.iter().any(|point| point.value(&select.value).is_some());
    figure.computed.is_none() && exists && (missing || has_nothing)
}

fn compared(
    study: &Study,
    figure: &Figure,
    (results, seeds): (&StudyResults, &[StudyResults]),
    computed: &Computed,
) -> Compared {
    let judged = judged(study, figure, results, computed);
    let cause = (judged.verdict == Verdict::Missed)
        .then(|| switched(study, figure, &judged, results, computed))
        .flatten();
    let verdict = match judged.verdict {
        Verdict::Met if figure.cannot_fail.is_some() => Verdict::CannotFail,
        Verdict::Missed if cause.as_ref().is_some_and(|cause| cause.demonstrated) => Verdict::Explained,
        verdict => verdict,
    };
    let values = over_seeds(study, figure, &judged, seeds, computed);
    let spread = match (&judged.numbers[..], &values.plus_minus[..]) {
        ([ours], [more]) => format!(" ({} to {})", number(ours - more), number(ours + more)),
        _ => String::new(),
    };
    let because = cause.as_ref().map(|cause| cause.sentence(&figure.unit)).unwrap_or_default();
    let sentence = [judged.difference.as_str(), &because, figure.note.as_str()];
    let sentence = sentence.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    Compared {
        what: figure.what.clone(),
        kind: figure.kind,
        source: figure.source.clone(),
        unit: figure.unit.clone(),
        published: judged.published,
        ours: judged.ours + &spread,
        values,
        with_costs: None,
        measured: None,
        verdict,
        rule: figure.rule(study),
        cause,
        stored: None,
        sentence,
        table: judged.table,
    }
}

/// Returns the numbers of a figure with their intervals over seeds. Computed values have no seeds.
fn over_seeds(
    study: &Study,
    figure: &Figure,
    with_all: &Judged,
    seeds: &[StudyResults],
    computed: &Computed,
) -> Values {
    let ours = with_all.numbers.clone();
    let alone = Values { first_seed: ours.clone(), band: vec![0.0; ours.len()], ours, ..Values::default() };
    if figure.computed.is_some() {
        return alone;
    }
    let of_seed = |results: &StudyResults| judged(study, figure, results, computed).numbers;
    let by_seed: Vec<Vec<f64>> = seeds.iter().map(of_seed).collect();
    if by_seed.iter().any(|of_seed| of_seed.len() != alone.ours.len()) {
        return alone;
    }
    let at = |place| OverSeeds::new(&by_seed.iter().map(|of_seed| of_seed[place]).collect::<Vec<f64>>());
    let Some(over) = (0..alone.ours.len()).map(at).collect::<Option<Vec<OverSeeds>>>() else { return alone };
    Values {
        plus_minus: over.iter().map(|over| over.of_mean).collect(),
        band: over.iter().map(|over| over.of_next).collect(),
        first_seed: by_seed.into_iter().next().unwrap_or_default(),
        ..alone
    }
}

/// Verdict on a figure, before its cause and its seeds are considered.
pub(crate) struct Judged {
    pub published: String,
    /// Our figure as shown in tables.
    pub ours: String,
    /// Our numbers, in the sequence of [`Values`].
    pub numbers: Vec<f64>,
    pub verdict: Verdict,
    pub difference: String,
    pub table: Option<PublishedTable>,
}

/// Judges a figure by its published values.
pub(crate) fn judged(study: &Study, figure: &Figure, results: &StudyResults, computed: &Computed) -> Judged {
    let judged = by_kind(figure, results, computed, figure.tolerance_in(study).share);
    match (judged.verdict, figure.kind) {
        (Verdict::Missed, Kind::Context) => Judged { verdict: Verdict::Stated, ..judged },
        _ => judged,
    }
}

fn by_kind(figure: &Figure, results: &StudyResults, computed: &Computed, tolerance: f64) -> Judged {
    let row = |published: String, ours: String, numbers, (verdict, difference)| Judged {
        published,
        ours,
        numbers,
        verdict,
        difference,
        table: None,
    };
    let missing =
        |published| row(published, String::new(), Vec::new(), (Verdict::NotMeasured, String::new()));
    match &figure.published {
        Published::Rows(rows) => {
            let table = table(&figure.select, rows, results);
            let judged = of_table(&table, rows, tolerance);
            let cells: Option<Vec<f64>> =
                table.rows.iter().flat_map(|row| row.ours.iter().copied()).collect();
            let numbers = cells.filter(|_| judged.0 != Verdict::NotMeasured).unwrap_or_default();
            Judged { table: Some(table), ..row(String::new(), String::new(), numbers, judged) }
        }
        Published::Order(fabrics) => {
            let groups = groups(fabrics);
            let published = groups.iter().map(|group| group.join(" = ")).collect::<Vec<_>>().join(" < ");
            match order(&figure.select, &groups.concat(), results) {
                Some(ours) => {
                    let shown: Vec<_> =
                        ours.iter().map(|(name, value)| format!("{name} {}", number(*value))).collect();
                    let of = |fabric: String| ours.iter().find(|(name, _)| *name == fabric).map(|it| it.1);
                    let numbers = groups.concat().into_iter().filter_map(of).collect();
                    row(published, shown.join(" < "), numbers, of_order(&groups, &ours, tolerance))
                }
                None => missing(published),
            }
        }
        Published::Nothing => match ours(figure, results, computed) {
            Some(ours) => {
                let said = shown(&ours, None) + &interval(figure, computed);
                row(String::new(), said, ours, (Verdict::Alone, String::new()))
            }
            None => missing(String::new()),
        },
        Published::Range(range) => {
            let published = format!("{} to {}", number(range[0]), number(range[1]));
            match ours(figure, results, computed) {
                Some(ours) => row(published, shown(&ours, None), ours.clone(), of_range(*range, &ours)),
                None => missing(published),
            }
        }
        Published::Number(number) => {
            let digits = figure.digits.unwrap_or(0).max(0) as usize;
            let shown_digits = (figure.kind == Kind::Exact || digits > 0).then_some(digits);
            let published = word(figure.relation).to_string() + &shown(&[*number], shown_digits);
            match ours(figure, results, computed) {
                Some(ours) => {
                    let judged = of_number(figure, *number, &ours, tolerance);
                    let digits = (figure.kind == Kind::Exact).then_some(digits);
                    let said = shown(&ours, digits) + &interval(figure, computed);
                    row(published, said, ours, judged)
                }
                None => missing(published),
            }
        }
    }
}

/// Returns our values: a single value, or the minimum and the maximum.
fn ours(figure: &Figure, results: &StudyResults, computed: &Computed) -> Option<Vec<f64>> {
    if let Some(name) = &figure.computed {
        return computed.get(name.as_str()).map(|value| vec![*value]);
    }
    let select = &figure.select;
    match &select.crossing {
        Some(crossing) => crossed(select, crossing, results).map(|at| vec![at]),
        None => taken(select.take, &selected(select, &select.labels, results)?),
    }
}

/// Returns the place on the axis of a crossing, by linear interpolation between the logarithms of neighbouring points. Returns
/// `None` if a point is missing, or if the value has this size nowhere on the axis.
fn crossed(select: &Select, crossing: &Crossing, results: &StudyResults) -> Option<f64> {
    let of_grid = results.points.iter().filter(|point| point.grid == select.grid);
    let mut names: Vec<&String> = of_grid.filter_map(|point| point.labels.get(&crossing.axis)).collect();
    names.sort_unstable();
    names.dedup();
    let place = |name: &&String| {
        let at = [(crossing.axis.clone(), (*name).clone())];
        let labels = select.labels.clone().into_iter().chain(at).collect();
        let value = taken(select.take, &selected(select, &labels, results)?)?[0];
        Some((leading_number(name)?.ln(), value - crossing.value))
    };
    let mut places: Vec<(f64, f64)> = names.iter().map(place).collect::<Option<_>>()?;
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    let crosses = |two: &&[(f64, f64)]| two[0].1 * two[1].1 <= 0.0;
    let two = places.windows(2).find(crosses)?;
    let [(from, before), (to, after)] = [two[0], two[1]];
    let part = if before == after { 0.0 } else { before / (before - after) };
    Some((from + part * (to - from)).exp())
}

/// Returns the 95 % interval of a computed value in parentheses, if the values `NAME.low` and `NAME.high` exist.
fn interval(figure: &Figure, computed: &Computed) -> String {
    let end = |end: &str| computed.get(&format!("{}.{end}", figure.computed.as_ref()?)).copied();
    match (end("low"), end("high")) {
        (Some(low), Some(high)) => format!(" ({} to {})", number(low), number(high)),
        _ => String::new(),
    }
}

/// Returns the values of the points with these labels, in the order of the grid; `None` if one of the points lacks the value.
fn selected(select: &Select, labels: &BTreeMap<String, String>, results: &StudyResults) -> Option<Vec<f64>> {
    let found = results.points.iter().filter(|point| point.grid == select.grid && point.has(labels));
    let of = |point: &Measured| {
        let value = point.value(&select.value)? * select.scale.unwrap_or(1.0);
        if select.over.is_empty() {
            return Some(value);
        }
        let mut instead = point.labels.clone();
        instead.extend(select.over.clone());
        let below = results.points.iter().find(|other| other.grid == point.grid && other.labels == instead);
        Some(value / (below?.value(&select.value)? * select.scale.unwrap_or(1.0)))
    };
    found.map(of).collect()
}

fn taken(take: SampleChoice, values: &[f64]) -> Option<Vec<f64>> {
    let (least, most) = range(values)?;
    match take {
        SampleChoice::Only => (values.len() == 1).then(|| values.to_vec()),
        SampleChoice::Max => Some(vec![most]),
        SampleChoice::Min => Some(vec![least]),
        SampleChoice::Mean => Some(vec![values.iter().sum::<f64>() / values.len() as f64]),
        SampleChoice::Range => Some(vec![least, most]),
    }
}

/// Returns one value for each fabric, in ascending order.
fn order(select: &Select, fabrics: &[String], results: &StudyResults) -> Option<Vec<(String, f64)>> {
    let of = |fabric: &String| {
        let labels =
            select.labels.clone().into_iter().chain([("fabric".to_string(), fabric.clone())]).collect();
        Some((fabric.clone(), taken(select.take, &selected(select, &labels, results)?)?[0]))
    };
    let mut found: Vec<(String, f64)> = fabrics.iter().map(of).collect::<Option<_>>()?;
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    Some(found)
}

/// Splits an order such as `["edm", "pfabric = dctcp"]` into groups of fabrics.
fn groups(order: &[String]) -> Vec<Vec<String>> {
    let group = |names: &String| names.split('=').map(|name| name.trim().to_string()).collect();
    order.iter().map(group).collect()
}

fn table(select: &Select, rows: &BTreeMap<String, Vec<f64>>, results: &StudyResults) -> PublishedTable {
    let mut columns: Vec<String> = Vec::new();
    for point in results.points.iter().filter(|point| point.grid == select.grid && point.has(&select.labels))
    {
        columns.extend(point.labels.get(&select.columns).cloned());
    }
    let mut seen = std::collections::BTreeSet::new();
    columns.retain(|column| seen.insert(column.clone()));
    let row = |(fabric, published): (&String, &Vec<f64>)| {
        let of = |column: &String| {
            let mut labels = select.labels.clone();
            labels.insert("fabric".into(), fabric.clone());
            labels.insert(select.columns.clone(), column.clone());
            taken(select.take, &selected(select, &labels, results)?).map(|value| value[0])
        };
        let mut ours: Vec<Option<f64>> = columns.iter().map(of).collect();
        if select.sorted {
            ours.sort_by(|a, b| a.unwrap_or(f64::MAX).total_cmp(&b.unwrap_or(f64::MAX)));
        }
        Row { fabric: fabric.clone(), published: published.clone(), ours }
    };
    PublishedTable { rows: rows.iter().map(row).collect(), columns }
}

fn word(relation: PublishedRelation) -> &'static str {
    match relation {
        PublishedRelation::Equal => "",
        PublishedRelation::AtMost => "at most ",
        PublishedRelation::AtLeast => "at least ",
    }
}

impl Measured {
    /// Returns a number of the summary by its path, such as `by_kind.read.slowdown.mean`: the mean over all seeds.
    pub fn value(&self, path: &str) -> Option<f64> {
        let path = format!("/{}", path.replace('.', "/"));
        let of = |summary: &serde_json::Value| summary.pointer(&path)?.as_f64();
        let values: Option<Vec<f64>> = [&self.summary].into_iter().chain(&self.seeds).map(of).collect();
        values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Returns whether the summary has null at this path or at a prefix of it, because the run had no messages to count there.
    fn has_nothing_at(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('.').collect();
        let at = |n: usize| self.summary.pointer(&format!("/{}", parts[..n].join("/")));
        (1..=parts.len()).any(|n| at(n).is_some_and(serde_json::Value::is_null))
    }

    /// Returns the notes about settings that never acted at this point.
    pub fn notes(&self) -> Vec<Warning> {
        let notes = self.summary.get("notes").cloned();
        notes.and_then(|notes| serde_json::from_value(notes).ok()).unwrap_or_default()
    }

    fn has(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.iter().all(|(axis, value)| self.labels.get(axis) == Some(value))
    }
}

#[cfg(test)]
mod tests;
