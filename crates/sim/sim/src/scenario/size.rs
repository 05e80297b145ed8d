//! Sizes in a scenario, and the files of distributions that a scenario names.

use serde::Deserialize;
use std::borrow::Cow;
use toml::Spanned;
use unrack_engine::error::SetupError;
use unrack_input::{clipped, read_text};
use unrack_rack as rack;
use unrack_rack::ParetoScale;
use unrack_workload::{Pareto, SizeCdf, SizeDistribution, size};

/// Reads the size at `key` of a scenario, and its file if it names one.
pub(super) fn read_size(key: &'static str, written: &rack::Size) -> Result<SizeDistribution, SetupError> {
    match written {
        rack::Size::Fixed(bytes) => SizeDistribution::fixed(bytes.get())
            .map_err(|error| SetupError { key: key.into(), ..error.into() }),
        rack::Size::BuiltIn(name) => SizeCdf::built_in(name)
            .map(SizeDistribution::Cdf)
            .ok_or_else(|| SetupError::new(key, "is a built-in distribution", name)),
        rack::Size::File { file, unit } => {
            let unit_bytes = match unit {
                rack::SizeUnit::Bytes => 1.0,
                rack::SizeUnit::Packets => size::PACKET_BYTES,
            };
            read_cdf(key, file, unit_bytes).map(SizeDistribution::Cdf)
        }
        rack::Size::Pareto { shape, scale, maximum } => {
            let maximum = maximum.map_or(Pareto::DEFAULT_MAXIMUM, |bytes| bytes.get());
            let pareto = Pareto::new(*shape, *scale, maximum);
            pareto
                .map(SizeDistribution::Pareto)
                .map_err(|error| SetupError { key: key.into(), ..error.into() })
        }
    }
}

/// Returns the mean size of a message in bytes. It does not read files, and assumes a packet for a distribution in a
/// file.
pub(crate) fn mean_size(written: &rack::Size) -> f64 {
    match written {
        rack::Size::Fixed(bytes) => bytes.get() as f64,
        rack::Size::BuiltIn(name) => {
            SizeCdf::built_in(name).map_or(size::PACKET_BYTES, |cdf| SizeDistribution::Cdf(cdf).mean())
        }
        rack::Size::File { .. } => size::PACKET_BYTES,
        rack::Size::Pareto { scale: ParetoScale::Minimum(bytes) | ParetoScale::Mean(bytes), .. } => {
            bytes.get() as f64
        }
    }
}

/// Largest size of a distribution file in bytes: room for some hundred thousand points.
const MOST_BYTES: u64 = 16 << 20;

/// File of a distribution: `points = [[size, cumulative probability], ...]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SizePoints {
    points: Vec<Spanned<(f64, f64)>>,
}

fn read_cdf(key: &'static str, file: &rack::FileRef, unit_bytes: f64) -> Result<SizeCdf, SetupError> {
    let refuse = |rule: Cow<'static, str>, why: String| {
        SetupError::new(key, rule, format!("`{}`: {why}", file.written))
    };
    let text = read_text(&file.path, MOST_BYTES)
        .map_err(|why| refuse("can be read".into(), why.reason.to_string()))?;
    let line_at = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let SizePoints { points } = toml::from_str(&text).map_err(|why: toml::de::Error| {
        // Only the message is shown, because the full text of the error quotes the whole line.
        let line = why.span().map_or(1, |span| line_at(span.start));
        let why = format!("{} in line {line}", clipped(why.message()));
        refuse("holds `points = [[size, probability], ...]`".into(), why)
    })?;
    let values: Vec<(f64, f64)> = points.iter().map(|point| *point.get_ref()).collect();
    if let Some(flaw) = SizeCdf::flaw(&values, unit_bytes) {
        let line = points.get(flaw.point).map_or(1, |point| line_at(point.span().start));
        return Err(refuse(flaw.rule, format!("{} in line {line}", flaw.value)));
    }
    Ok(SizeCdf::new(&values, unit_bytes)?)
}
