//! Predicts the loss of a program from two of its rates: bytes of pages that it fetches, and bytes of lines that it moves from and to
//! memory (DDC, section 3.2, figure 6). The prediction for each program is fitted to the other programs.

use super::map::{MappedProgram, NETWORKS, SHARE};
use super::program::{Measurement, ProgramFound, StudyProgram, middle, other};
use crate::computed::Computed;
use unrack_record::LinesResult;
use unrack_report::{ChartSeries, Picture, SeriesAxis, SeriesChart};

/// Bytes of a line.
const LINE: f64 = 64.0;
/// Minimum number of programs for a predictor with one rate, and for one with two rates.
const LEAST: [usize; 2] = [3, 5];

/// Rates of a program and its loss, all as logarithms.
#[derive(Debug, Clone)]
pub struct Rated {
    program: String,
    /// Loss at 5 us and 40 Gb/s, in percent.
    loss: f64,
    /// Bytes of pages fetched per second of native time.
    pages: f64,
    /// Bytes of lines moved from and to memory per second, if they were counted.
    lines: Option<f64>,
}

/// Returns the programs that fetch pages and have a positive loss, with their rates.
pub fn rated(mapped: &[MappedProgram], programs: &[StudyProgram], found: &[ProgramFound]) -> Vec<Rated> {
    let one = |mapped: &MappedProgram| {
        let (pages, loss) = (mapped.swap_bytes_per_s()?, mapped.loss(SHARE, NETWORKS[0])?.value);
        let program = mapped.program.name.clone();
        let lines = lines_bytes_per_s(&program, programs, found).map(f64::ln);
        (pages > 0.0 && loss > 0.0).then(|| Rated { program, loss: loss.ln(), pages: pages.ln(), lines })
    };
    mapped.iter().filter_map(one).collect()
}

/// Returns the bytes of lines that a program moves per second, from its measurement with `unrack compare --access lines`.
fn lines_bytes_per_s(program: &str, programs: &[StudyProgram], found: &[ProgramFound]) -> Option<f64> {
    let other = other(program, Measurement::Lines, programs)?;
    let found = found.iter().find(|found| found.program == other.name)?;
    let lines: LinesResult = serde_json::from_value(found.answer.pointer("/lines")?.clone()).ok()?;
    let moved = (lines.counts.memory_reads + lines.counts.write_backs) as f64 * LINE;
    let rate = moved / lines.predicted_near_s.known()?.value?;
    (rate > 0.0).then_some(rate)
}

/// Returns the correlation coefficients and the median errors of the predictions, by name.
pub fn values(rated: &[Rated]) -> Computed {
    let with_lines: Vec<Rated> = rated.iter().filter(|one| one.lines.is_some()).cloned().collect();
    let lines = |one: &Rated| one.lines.unwrap_or_default();
    let all = [
        ("swap-correlation", correlation(rated, |one| one.pages)),
        ("memory-correlation", correlation(&with_lines, lines)),
        ("swap-predictor-error", median_error(&by_one(rated, |one| one.pages))),
        ("memory-predictor-error", median_error(&by_one(&with_lines, lines))),
        ("both-predictor-error", median_error(&by_both(&with_lines))),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
}

/// Returns Pearson's correlation coefficient between the logarithms of a rate and of the loss; `None` for fewer than three programs.
fn correlation(rated: &[Rated], rate: impl Fn(&Rated) -> f64) -> Option<f64> {
    (rated.len() >= LEAST[0]).then(|| {
        let points: Vec<(f64, f64)> = rated.iter().map(|one| (rate(one), one.loss)).collect();
        let [xx, xy, yy] = squares(&points);
        xy / (xx * yy).sqrt()
    })
}

/// Returns the sums of squares and of products of the deviations from the means: `[xx, xy, yy]`.
fn squares(points: &[(f64, f64)]) -> [f64; 3] {
    let (x, y) = means(points);
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
    [sum(|x, _| x * x), sum(|x, y| x * y), sum(|_, y| y * y)]
}

fn means(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    (
        points.iter().map(|point| point.0).sum::<f64>() / count,
        points.iter().map(|point| point.1).sum::<f64>() / count,
    )
}

/// A measured loss and its prediction, both in percent.
#[derive(Debug, Clone, PartialEq)]
struct PredictedLoss {
    program: String,
    loss: f64,
    predicted: f64,
}

/// Predicts the loss of each program from the other programs (leave-one-out). `predict` returns the logarithm of the loss. The result
/// is empty for fewer programs than `least`.
fn left_out(rated: &[Rated], least: usize, predict: impl Fn(&[&Rated], &Rated) -> f64) -> Vec<PredictedLoss> {
    if rated.len() < least {
        return Vec::new();
    }
    let one = |(number, one): (usize, &Rated)| {
        let others: Vec<&Rated> =
            rated.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, other)| other).collect();
        PredictedLoss {
            program: one.program.clone(),
            loss: one.loss.exp(),
            predicted: predict(&others, one).exp(),
        }
    };
    rated.iter().enumerate().map(one).collect()
}

/// Predicts that the loss is proportional to one rate. The factor is the geometric mean of the ratios of loss to rate.
fn by_one(rated: &[Rated], rate: impl Fn(&Rated) -> f64) -> Vec<PredictedLoss> {
    left_out(rated, LEAST[0], |others, one| {
        let ratio = others.iter().map(|other| other.loss - rate(other)).sum::<f64>() / others.len() as f64;
        rate(one) + ratio
    })
}

/// Predicts that the loss is proportional to the product of powers of both rates, whose exponents add up to 1. The exponents are
/// fitted by least squares on the logarithms.
fn by_both(rated: &[Rated]) -> Vec<PredictedLoss> {
    let lines = |one: &Rated| one.lines.unwrap_or_default();
    left_out(rated, LEAST[1], |others, one| {
        let points: Vec<(f64, f64)> =
            others.iter().map(|other| (other.pages - lines(other), other.loss - lines(other))).collect();
        let ([xx, xy, _], (x, y)) = (squares(&points), means(&points));
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        lines(one) + y + slope * (one.pages - lines(one) - x)
    })
}

/// Returns the median of the relative errors in percent.
fn median_error(predicted: &[PredictedLoss]) -> Option<f64> {
    let error = |one: &PredictedLoss| (one.predicted / one.loss - 1.0).abs() * 100.0;
    let mut errors: Vec<f64> = predicted.iter().map(error).collect();
    errors.sort_by(f64::total_cmp);
    middle(&errors)
}

/// Returns a picture of the measured losses and their predictions; `None` for too few programs.
pub fn picture(name: &str, rated: &[Rated]) -> Option<Picture> {
    let (by_pages, by_both) = (by_one(rated, |one| one.pages), {
        let with_lines: Vec<Rated> = rated.iter().filter(|one| one.lines.is_some()).cloned().collect();
        by_both(&with_lines)
    });
    if by_pages.is_empty() {
        return None;
    }
    let names: Vec<String> = by_pages.iter().map(|one| one.program.clone()).collect();
    let place = |program: &str| names.iter().position(|name| name == program).map(|place| place as f64);
    let series = |predicted: &[PredictedLoss], of: fn(&PredictedLoss) -> f64| {
        predicted.iter().filter_map(|one| Some((place(&one.program)?, of(one)))).collect()
    };
    let chart = SeriesChart {
        id: format!("{name}-predicted"),
        title: "Loss at 5 us and 40 Gb/s, and what the rates of the other programs predict".into(),
        series: vec![
            ChartSeries::new("measured", series(&by_pages, |one| one.loss)),
            ChartSeries::new("by pages", series(&by_pages, |one| one.predicted)),
            ChartSeries::new("by pages and lines", series(&by_both, |one| one.predicted)),
        ],
        x: SeriesAxis::Names("program".into(), names),
        y_label: "loss, %".into(),
        y_log: true,
        ranges: None,
    };
    Some(chart.figure())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(program: &str, loss: f64, pages: f64, lines: Option<f64>) -> Rated {
        Rated { program: program.into(), loss: loss.ln(), pages: pages.ln(), lines: lines.map(f64::ln) }
    }

    #[test]
    fn losses_in_proportion_to_a_rate_are_predicted_exactly() {
        let mut rated: Vec<Rated> = [("a", 1.0), ("b", 4.0), ("c", 9.0), ("d", 40.0)]
            .map(|(name, loss)| one(name, loss, loss * 1e6, None))
            .to_vec();
        let exact = values(&rated);
        assert!(exact["swap-predictor-error"] < 1e-6 && exact["swap-correlation"] > 1.0 - 1e-9);
        assert!(!exact.contains_key("memory-predictor-error"), "no lines were counted");
        rated[3] = one("d", 80.0, 40e6, None);
        // The predictions of the other programs are too high by the factor 2^(1/3), and that of the last is half of its loss.
        let error = values(&rated)["swap-predictor-error"];
        assert!((error - 100.0 * (2f64.powf(1.0 / 3.0) - 1.0)).abs() < 1e-6, "{error}");
    }

    #[test]
    fn two_rates_predict_what_one_does_not() {
        // The loss is a weighted geometric mean of both rates, with the exponents 0.3 and 0.7.
        let rates = [(1e6, 1e9), (5e6, 2e8), (1e8, 5e8), (2e7, 4e9), (3e8, 3e9), (1e7, 1e10)];
        let rated: Vec<Rated> = rates
            .iter()
            .zip(["a", "b", "c", "d", "e", "f"])
            .map(|((pages, lines), name): (&(f64, f64), _)| {
                one(name, pages.powf(0.3) * lines.powf(0.7) / 1e7, *pages, Some(*lines))
            })
            .collect();
        let found = values(&rated);
        assert!(found["both-predictor-error"] < 1e-6, "{found:?}");
        assert!(found["swap-predictor-error"] > 10.0 && found["memory-predictor-error"] > 10.0, "{found:?}");
        assert!(!values(&rated[..4]).contains_key("both-predictor-error"), "too few programs");
    }
}
