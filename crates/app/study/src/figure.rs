//! Comparison of published figures with ours: a verdict, and a sentence that describes the difference.

use crate::computed::Computed;
use crate::file::{Figure, Kind, Published, PublishedRelation, SampleChoice, Select, Study, StudyScale};
use crate::grid::{StudyPoint, points};
use crate::programs::withheld;
use crate::run::{Measured, StudyResults};
use serde::Serialize;
use std::collections::BTreeMap;

/// Comparison of one published figure with ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    pub what: String,
    pub kind: Kind,
    pub source: String,
    pub unit: String,
    /// Published figure as shown in tables.
    pub published: String,
    /// Our figure as shown in tables; empty if this run did not measure it.
    pub ours: String,
    /// Our figure, simulated with the measured costs of a machine. `None` unless the costs were given and the study uses them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_costs: Option<String>,
    /// The same quantity, measured directly on the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    pub verdict: Verdict,
    /// Whether the figure is known to be missed. The sentence has the reason.
    pub known: bool,
    /// Description of the difference and of its reason.
    pub sentence: String,
    /// Cells of a published table with our values.
    pub table: Option<PublishedTable>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Met,
    Missed,
    /// The values differ by the amount that the sentence states.
    Stated,
    /// There is no published value; ours is shown alone.
    Alone,
    /// Not measured, because a quick run has fewer points and messages.
    LeftOut,
    /// The measurement is too uncertain, or needs programs that this machine lacks. The sentence has the reason.
    Withheld,
    /// Not measured although its points were run, because the study's file names a value that does not exist.
    NotMeasured,
}

/// A published table with our values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedTable {
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub fabric: String,
    pub published: Vec<f64>,
    pub ours: Vec<Option<f64>>,
}

/// Compares all published figures of a study with ours.
pub fn compare(
    study: &Study,
    results: &StudyResults,
    computed: &Computed,
    scale: StudyScale,
) -> Vec<Compared> {
    let planned = points(study, StudyScale::Full);
    let one = |figure: &Figure| {
        let compared = compared(figure, results, computed);
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
    study.figures.iter().map(one).collect()
}

/// Returns whether this figure makes the run fail: it was not measured, or it must be met and is missed.
pub fn fails(figure: &Compared) -> bool {
    match figure.verdict {
        Verdict::NotMeasured => true,
        Verdict::Missed => !matches!(figure.kind, Kind::Shape | Kind::Context) && !figure.known,
        Verdict::Met | Verdict::Stated | Verdict::Alone | Verdict::LeftOut | Verdict::Withheld => false,
    }
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

fn compared(figure: &Figure, results: &StudyResults, computed: &Computed) -> Compared {
    let row = |published: String, ours: String, verdict, difference: String| Compared {
        what: figure.what.clone(),
        kind: figure.kind,
        source: figure.source.clone(),
        unit: figure.unit.clone(),
        published,
        ours,
        with_costs: None,
        measured: None,
        verdict,
        known: figure.known,
        sentence: [difference.as_str(), figure.note.as_str()].join(" ").trim().to_string(),
        table: None,
    };
    let missing = |published| row(published, String::new(), Verdict::NotMeasured, String::new());
    match &figure.published {
        Published::Rows(rows) => {
            let table = table(&figure.select, rows, results);
            let (verdict, difference) = of_table(&table, rows);
            Compared { table: Some(table), ..row(String::new(), String::new(), verdict, difference) }
        }
        Published::Order(fabrics) => {
            let groups = groups(fabrics);
            let published = groups.iter().map(|group| group.join(" = ")).collect::<Vec<_>>().join(" < ");
            match order(&figure.select, &groups.concat(), results) {
                Some(ours) => {
                    let shown: Vec<_> =
                        ours.iter().map(|(name, value)| format!("{name} {}", number(*value))).collect();
                    let (verdict, difference) = of_order(&groups, &ours, figure.tolerance);
                    row(published, shown.join(" < "), verdict, difference)
                }
                None => missing(published),
            }
        }
        Published::Nothing => match ours(figure, results, computed) {
            Some(ours) => row(
                String::new(),
                shown(&ours, None) + &interval(figure, computed),
                Verdict::Alone,
                String::new(),
            ),
            None => missing(String::new()),
        },
        Published::Range(range) => {
            let published = format!("{} to {}", number(range[0]), number(range[1]));
            match ours(figure, results, computed) {
                Some(ours) => {
                    let (verdict, difference) = of_range(*range, &ours);
                    row(published, shown(&ours, None), verdict, difference)
                }
                None => missing(published),
            }
        }
        Published::Number(number) => {
            let digits = figure.digits.unwrap_or(0).max(0) as usize;
            let shown_digits = (figure.kind == Kind::Exact || digits > 0).then_some(digits);
            let published = word(figure.relation).to_string() + &shown(&[*number], shown_digits);
            match ours(figure, results, computed) {
                Some(ours) => {
                    let (verdict, difference) = of_number(figure, *number, &ours);
                    let digits = (figure.kind == Kind::Exact).then_some(digits);
                    row(published, shown(&ours, digits) + &interval(figure, computed), verdict, difference)
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
    let values = selected(&figure.select, &figure.select.labels, results);
    taken(figure.select.take, &values?)
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

fn range(values: &[f64]) -> Option<(f64, f64)> {
    let first = *values.first()?;
    Some(values.iter().fold((first, first), |(lo, hi), value| (lo.min(*value), hi.max(*value))))
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

/// Largest difference between values that a paper calls the same, as a share of the smallest. Readers of a plot can just
/// distinguish about 10 %, and reruns of one simulation by EDM's authors differ by up to 9 % (edm/fig8-artifact).
const SAME: f64 = 0.1;

/// Judges an order of fabrics. Our order is the same if no group is below an earlier one, and the values within each
/// group differ by at most the tolerance.
fn of_order(groups: &[Vec<String>], ours: &[(String, f64)], tolerance: Option<f64>) -> (Verdict, String) {
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
        (above > tolerance.unwrap_or(SAME))
            .then(|| format!("{} is {} above {}", most.0, percent(above), least.0))
    };
    let apart: Vec<String> = groups.iter().filter_map(apart).collect();
    match (out.is_empty(), apart.is_empty()) {
        (true, true) => (Verdict::Met, "The same order.".into()),
        (false, _) => (Verdict::Missed, format!("Another order: {}.", out.join(", "))),
        (true, false) => (Verdict::Missed, format!("Not the same: {}.", apart.join(", "))),
    }
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

/// Returns the verdict on a table, and the range of ratios of each row. The table counts as not measured if any cell was not.
fn of_table(table: &PublishedTable, published: &BTreeMap<String, Vec<f64>>) -> (Verdict, String) {
    let difference = |row: &Row| {
        let ours: Vec<f64> = row.ours.iter().flatten().copied().collect();
        if ours.len() != row.published.len() {
            return None;
        }
        let ratios: Vec<f64> =
            ours.iter().zip(&row.published).map(|(ours, published)| ours / published).collect();
        let (least, most) = range(&ratios)?;
        Some(match number(least) == number(most) {
            true => format!("{} {} times", row.fabric, number(least)),
            false => format!("{} {} to {} times", row.fabric, number(least), number(most)),
        })
    };
    let rows: Vec<String> = table.rows.iter().filter_map(difference).collect();
    match rows.len() < published.len() {
        true => (Verdict::NotMeasured, String::new()),
        false => (Verdict::Stated, format!("Ours over published: {}.", rows.join(", "))),
    }
}

fn of_range(published: [f64; 2], ours: &[f64]) -> (Verdict, String) {
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

fn of_number(figure: &Figure, published: f64, ours: &[f64]) -> (Verdict, String) {
    let (least, most) = range(ours).unwrap_or((f64::NAN, f64::NAN));
    match (figure.relation, figure.kind) {
        (PublishedRelation::Equal, kind) => {
            let digits = figure.digits.or((!matches!(kind, Kind::Shape | Kind::Context)).then_some(0));
            let same = |ours: &f64| digits.is_some_and(|to| rounded(*ours, to) == rounded(published, to));
            match ours.iter().all(same) {
                true => (Verdict::Met, "The same.".into()),
                false if matches!(kind, Kind::Shape | Kind::Context) => {
                    (Verdict::Stated, against(published, ours))
                }
                false => (Verdict::Missed, against(published, ours)),
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

fn shown(values: &[f64], digits: Option<usize>) -> String {
    let one = |value: &f64| digits.map_or_else(|| number(*value), |digits| format!("{value:.digits$}"));
    values.iter().map(one).collect::<Vec<_>>().join(" to ")
}

fn word(relation: PublishedRelation) -> &'static str {
    match relation {
        PublishedRelation::Equal => "",
        PublishedRelation::AtMost => "at most ",
        PublishedRelation::AtLeast => "at least ",
    }
}

/// Formats a number to three significant digits.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        _ if !value.is_finite() => "–".into(),
        0.0 => "0".into(),
        _ => format!("{value:.*}", (2 - magnitude.log10().floor() as i32).max(0) as usize),
    }
}

fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

impl Measured {
    /// Returns a number of the summary by its path, such as `by_kind.read.slowdown.mean`.
    pub fn value(&self, path: &str) -> Option<f64> {
        self.summary.pointer(&format!("/{}", path.replace('.', "/")))?.as_f64()
    }

    /// Returns whether the summary has null at this path or at a prefix of it, because the run had no messages to count there.
    fn has_nothing_at(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('.').collect();
        let at = |n: usize| self.summary.pointer(&format!("/{}", parts[..n].join("/")));
        (1..=parts.len()).any(|n| at(n).is_some_and(serde_json::Value::is_null))
    }

    fn has(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.iter().all(|(axis, value)| self.labels.get(axis) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> StudyResults {
        let point = |fabric: &str, load: &str, mean: f64| Measured {
            grid: "loads".into(),
            labels: BTreeMap::from([("fabric".into(), fabric.into()), ("load".into(), load.into())]),
            scenario_hash: String::new(),
            summary: serde_json::json!({ "slowdown": { "mean": mean } }),
        };
        let points = vec![
            point("edm", "10%", 1.01),
            point("edm", "90%", 1.26),
            point("cxl", "10%", 1.1),
            point("cxl", "90%", 5.04),
        ];
        StudyResults { study: "test".into(), points, programs: Vec::new() }
    }

    fn figure(text: &str) -> Compared {
        let common =
            "what = \"\"\nsource = \"\"\nselect.grid = \"loads\"\nselect.value = \"slowdown.mean\"\n";
        let figure: Figure = toml::from_str(&format!("{common}{text}")).unwrap();
        compared(&figure, &results(), &Computed::from([("nine".into(), 9.0)]))
    }

    fn verdict(text: &str) -> (Verdict, String) {
        let compared = figure(text);
        (compared.verdict, compared.sentence)
    }

    #[test]
    fn a_bound_is_kept_or_not() {
        let of = |published: f64| {
            let bound = "kind = \"bound\"\nrelation = \"at-most\"\nselect.take = \"max\"";
            verdict(&format!("{bound}\nselect.where.fabric = \"edm\"\npublished = {published:?}"))
        };
        assert_eq!(of(1.3), (Verdict::Met, "Within the bound.".into()));
        assert_eq!(of(1.2), (Verdict::Missed, "5.00 % above the bound.".into()));
    }

    #[test]
    fn an_exact_figure_is_met_to_its_digits() {
        let of = |published: f64, digits| {
            let exact = "kind = \"exact\"\ncomputed = \"nine\"";
            verdict(&format!("{exact}\npublished = {published:?}\ndigits = {digits}")).0
        };
        assert_eq!(of(9.0, 1), Verdict::Met);
        assert_eq!(of(9.04, 1), Verdict::Met);
        assert_eq!(of(9.04, 2), Verdict::Missed);
        let unknown = "kind = \"exact\"\ncomputed = \"ten\"\npublished = 1.0";
        assert_eq!(verdict(unknown).0, Verdict::NotMeasured);
    }

    /// A shape can also have the verdict "the same", if the number of its published digits is given.
    #[test]
    fn a_shape_is_the_same_to_the_digits_published() {
        let of = |published: f64, digits: &str| {
            let shape = "kind = \"shape\"\nselect.where.fabric = \"edm\"\nselect.where.load = \"90%\"";
            verdict(&format!("{shape}\nselect.scale = 100.0\npublished = {published:?}\n{digits}"))
        };
        assert_eq!(of(126.4, "digits = 0"), (Verdict::Met, "The same.".into()));
        assert_eq!(of(126.4, "digits = 1"), (Verdict::Stated, "Ours is the same within 0.5 %.".into()));
        assert_eq!(of(130.0, "digits = -1").0, Verdict::Met);
        assert_eq!(of(120.0, "digits = -1").0, Verdict::Stated);
        assert_eq!(of(126.0, "").0, Verdict::Stated);
    }

    #[test]
    fn values_are_set_over_those_of_another_fabric() {
        let over = "kind = \"shape\"\nselect.where.fabric = \"cxl\"\nselect.over.fabric = \"edm\"\n\
                    select.take = \"max\"\npublished = 8.0";
        let compared = figure(over);
        assert_eq!((compared.ours.as_str(), compared.verdict), ("4.00", Verdict::Stated));
        assert_eq!(compared.sentence, "Ours is 50.0 % lower.");
    }

    #[test]
    fn orders_ranges_and_tables() {
        let order = "kind = \"shape\"\nselect.where.load = \"90%\"\npublished = [\"edm\", \"cxl\"]";
        assert_eq!(verdict(order), (Verdict::Met, "The same order.".into()));
        let order = "kind = \"shape\"\nselect.where.load = \"90%\"\npublished = [\"cxl\", \"edm\"]";
        assert_eq!(verdict(order).1, "Another order: edm (1.26) is below cxl (5.04).");
        let equal = |load: &str, more: &str| {
            let order = format!("select.where.load = \"{load}\"\npublished = [\"cxl = edm\"]\n{more}");
            verdict(&format!("kind = \"shape\"\n{order}"))
        };
        assert_eq!(equal("10%", ""), (Verdict::Met, "The same order.".into()));
        assert_eq!(equal("90%", ""), (Verdict::Missed, "Not the same: cxl is 300 % above edm.".into()));
        assert_eq!(equal("90%", "tolerance = 3.1").0, Verdict::Met);
        assert_eq!(equal("10%", "tolerance = 0.05").0, Verdict::Missed);
        let unknown = "kind = \"shape\"\nselect.where.load = \"90%\"\npublished = [\"edm\", \"not-run\"]";
        assert_eq!(verdict(unknown).0, Verdict::NotMeasured);
        let range = "kind = \"shape\"\nselect.where.fabric = \"edm\"\nselect.take = \"range\"\npublished = [1.05, 1.2]";
        assert_eq!(verdict(range).1, "Ours begins 3.81 % lower, ours ends 5.00 % higher.");
        let rows = "kind = \"shape\"\nselect.columns = \"load\"\n[published]\nedm = [1.0, 1.2]";
        let compared = figure(rows);
        assert_eq!(compared.sentence, "Ours over published: edm 1.01 to 1.05 times.");
        let table = compared.table.unwrap();
        assert_eq!(
            (table.columns, &table.rows[0].ours),
            (vec!["10%".into(), "90%".into()], &vec![Some(1.01), Some(1.26)])
        );
    }
}
