//! Programs whose slowdown is measured over networks and local shares (`unrack map`): DDC, OSDI 2016, section 3.2.
//!
//! A *loss* is the increase of the run time, as a share of the native run time: a slowdown of 1.05 is a loss of 5 %. The loss of a
//! class is the mean over its programs, as in the paper. The interval of that mean is computed from the intervals of the programs,
//! which are independent.

use super::program::{Measurement, ProgramClass, ProgramFound, StudyProgram};
use crate::computed::Computed;
use std::fmt::Write;
use unrack_record::{MapLocal, SlowdownMap};
use unrack_report::{ChartSeries, Picture, SeriesAxis, SeriesChart, heat_of_programs};

/// Maximum loss that the paper accepts, in percent.
pub(super) const ALLOWED: f64 = 5.0;
/// Local share in the paper's comparisons.
pub(super) const SHARE: &str = "25%";

/// Latency and rate of a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NetworkPoint {
    pub(super) name: &'static str,
    pub(super) latency_ns: f64,
    pub(super) rate_bps: u64,
}

/// Networks of the paper's figures 2 to 5 and table 3.
pub(super) const NETWORKS: [NetworkPoint; 5] = [
    NetworkPoint { name: "5us-40g", latency_ns: 5e3, rate_bps: 40_000_000_000 },
    NetworkPoint { name: "3us-40g", latency_ns: 3e3, rate_bps: 40_000_000_000 },
    NetworkPoint { name: "3us-100g", latency_ns: 3e3, rate_bps: 100_000_000_000 },
    NetworkPoint { name: "5us-100g", latency_ns: 5e3, rate_bps: 100_000_000_000 },
    NetworkPoint { name: "10us-40g", latency_ns: 1e4, rate_bps: 40_000_000_000 },
];

/// A loss or a difference of losses in percent, with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SlowdownLoss {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl SlowdownLoss {
    /// Returns this loss minus another, independent one.
    fn less(self, other: SlowdownLoss) -> SlowdownLoss {
        let value = self.value - other.value;
        SlowdownLoss {
            value,
            low: value - (self.value - self.low).hypot(other.high - other.value),
            high: value + (self.high - self.value).hypot(other.value - other.low),
        }
    }
}

/// A program with its measured map of slowdowns.
pub struct MappedProgram<'a> {
    pub(super) program: &'a StudyProgram,
    pub(super) map: SlowdownMap,
}

/// Returns the programs that have a map, with their maps.
pub fn mapped<'a>(programs: &'a [StudyProgram], found: &[ProgramFound]) -> Vec<MappedProgram<'a>> {
    let one = |program: &'a StudyProgram| {
        let found = found.iter().find(|found| found.program == program.name)?;
        let map = serde_json::from_value(found.answer.clone()).ok()?;
        (program.measure == Measurement::Map).then_some(MappedProgram { program, map })
    };
    programs.iter().filter_map(one).collect()
}

impl MappedProgram<'_> {
    pub(super) fn local(&self, share: &str) -> Option<&MapLocal> {
        self.map.locals.iter().find(|local| local.local == share)
    }

    /// Returns the loss with this local share on a network; `None` if it was not measured or is withheld.
    pub(super) fn loss(&self, share: &str, network: NetworkPoint) -> Option<SlowdownLoss> {
        let local = self.local(share)?;
        let row = self.map.latencies_ns.iter().position(|ns| *ns == network.latency_ns)?;
        let column = self.map.bandwidths_bps.iter().position(|bps| *bps == network.rate_bps)?;
        let percent = |slowdown: f64| (slowdown - 1.0) * 100.0;
        let value = percent(*local.slowdown.as_ref()?.get(row)?.get(column)?);
        let [low, high] = local.slowdown_ci95.as_ref()?.get(row)?.get(column)?.map(percent);
        Some(SlowdownLoss { value, low, high })
    }

    /// Returns the bytes of pages that are fetched from remote memory per second of native time, with the paper's local share.
    pub(super) fn swap_bytes_per_s(&self) -> Option<f64> {
        Some(self.local(SHARE)?.fetches as f64 * 4096.0 / self.map.native_s?)
    }
}

/// Returns the values of figures 2 to 6 and table 3, by name.
pub fn values(mapped: &[MappedProgram]) -> Computed {
    let mut values = Computed::new();
    let mut put = |name: String, loss: SlowdownLoss| {
        values.insert(format!("{name}.low"), loss.low);
        values.insert(format!("{name}.high"), loss.high);
        values.insert(name, loss.value);
    };
    for one in mapped {
        for network in NETWORKS {
            let loss = one.loss(SHARE, network);
            loss.into_iter()
                .for_each(|loss| put(format!("{}-{}-loss", one.program.name, network.name), loss));
        }
    }
    for class in ProgramClass::ALL {
        let (all, several) = of_class(mapped, class);
        let loss = |share: &str, network| mean(if share == SHARE { &all } else { &several }, share, network);
        for network in NETWORKS {
            for share in shares(&several).iter().map(String::as_str).chain([SHARE]) {
                if let Some(loss) = loss(share, network) {
                    put(
                        format!("{}-{}-{}-loss", class.name(), network.name, share.trim_end_matches('%')),
                        loss,
                    );
                }
            }
        }
        let more = loss("40%", NETWORKS[0]).zip(loss("60%", NETWORKS[0]));
        more.into_iter()
            .for_each(|(at_40, at_60)| put(format!("{}-60-local-spare", class.name()), at_40.less(at_60)));
    }
    for class in ProgramClass::ALL {
        let (_, several) = of_class(mapped, class);
        for network in NETWORKS {
            if let Some(share) = need(&several, network) {
                values.insert(format!("{}-{}-local", class.name(), network.name), share);
            }
        }
    }
    values.extend(order(mapped).map(|share| ("classes-in-order".to_string(), share)));
    values.extend(faster_link(mapped).map(|percent| ("faster-link-spares".to_string(), percent)));
    values
}

/// Returns two lists of the programs of a class: all of them, which count at the paper's local share, and those that were
/// measured at several local shares.
fn of_class<'a>(
    mapped: &'a [MappedProgram<'a>],
    class: ProgramClass,
) -> (Vec<&'a MappedProgram<'a>>, Vec<&'a MappedProgram<'a>>) {
    let all: Vec<&MappedProgram> =
        mapped.iter().filter(|mapped| mapped.program.class == Some(class)).collect();
    let several = all.iter().copied().filter(|mapped| mapped.map.locals.len() > 1).collect();
    (all, several)
}

/// Returns the part of the loss at 5 us and 40 Gb/s that a link of 100 Gb/s avoids, in percent, as the mean over the programs.
fn faster_link(mapped: &[MappedProgram]) -> Option<f64> {
    let part = |mapped: &MappedProgram| {
        let (at_40, at_100) =
            (mapped.loss(SHARE, NETWORKS[0])?.value, mapped.loss(SHARE, NETWORKS[3])?.value);
        (at_40 > 0.0).then(|| (1.0 - at_100 / at_40) * 100.0)
    };
    let parts: Vec<f64> = mapped.iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| parts.iter().sum::<f64>() / parts.len() as f64)
}

/// Returns the local shares at which all programs were measured, in ascending order.
fn shares(of: &[&MappedProgram]) -> Vec<String> {
    let Some(first) = of.first() else { return Vec::new() };
    let of_all = |share: &&String| of.iter().all(|mapped| mapped.local(share).is_some());
    first.map.locals.iter().map(|local| &local.local).filter(of_all).cloned().collect()
}

/// Returns the mean loss of programs; `None` if the loss of one of them is missing.
fn mean(of: &[&MappedProgram], share: &str, network: NetworkPoint) -> Option<SlowdownLoss> {
    let losses: Vec<SlowdownLoss> =
        of.iter().map(|mapped| mapped.loss(share, network)).collect::<Option<_>>()?;
    let count = losses.len() as f64;
    if losses.is_empty() {
        return None;
    }
    let value = losses.iter().map(|loss| loss.value).sum::<f64>() / count;
    let half =
        |end: fn(&SlowdownLoss) -> f64| losses.iter().map(end).map(|d| d * d).sum::<f64>().sqrt() / count;
    Some(SlowdownLoss {
        value,
        low: value - half(|loss| loss.value - loss.low),
        high: value + half(|loss| loss.high - loss.value),
    })
}

/// Returns the smallest measured local share, in percent, for which the mean loss is acceptable at this share and at all larger
/// ones. Returns 100 % if even the largest share is not enough.
fn need(of: &[&MappedProgram], network: NetworkPoint) -> Option<f64> {
    let mut least = None;
    for share in shares(of).iter().rev() {
        if mean(of, share, network)?.value > ALLOWED {
            return Some(least.unwrap_or(100.0));
        }
        least = share.trim_end_matches('%').parse().ok();
    }
    least
}

/// Returns the share of all pairs of a dolphin and a shark (as the paper classifies them) in which the dolphin has the smaller loss
/// at 5 us and 40 Gb/s.
fn order(mapped: &[MappedProgram]) -> Option<f64> {
    let of = |class| {
        let is = move |mapped: &&MappedProgram| mapped.program.class == Some(class);
        mapped.iter().filter(is).filter_map(|mapped| Some(mapped.loss(SHARE, NETWORKS[0])?.value))
    };
    let pairs = of(ProgramClass::Dolphin)
        .flat_map(|dolphin| of(ProgramClass::Shark).map(move |shark| dolphin < shark));
    let pairs: Vec<bool> = pairs.collect();
    let right = pairs.iter().filter(|is_right| **is_right).count();
    (!pairs.is_empty()).then(|| right as f64 / pairs.len() as f64)
}

/// Returns the pictures: the losses of all programs over networks, and the mean losses of both classes over local shares.
pub fn pictures(name: &str, mapped: &[MappedProgram]) -> Vec<Picture> {
    if mapped.is_empty() {
        return Vec::new();
    }
    let maps: Vec<(&str, &SlowdownMap)> =
        mapped.iter().map(|mapped| (mapped.program.name.as_str(), &mapped.map)).collect();
    let heat = heat_of_programs(
        &format!("{name}-surfaces"),
        "Slowdown over latency and bandwidth, a quarter of the memory local",
        &maps,
        SHARE,
    );
    let by_class = |class: ProgramClass| {
        let (_, several) = of_class(mapped, class);
        let mut series = ChartSeries::new(class.name(), Vec::new());
        for share in shares(&several) {
            let percent = share.trim_end_matches('%').parse().ok();
            if let (Some(x), Some(loss)) = (percent, mean(&several, &share, NETWORKS[0])) {
                series.points.push((x, loss.value));
                series.ranges.push([loss.low, loss.high]);
            }
        }
        series
    };
    let classes = SeriesChart {
        id: format!("{name}-classes"),
        title: "Mean loss of both classes over local share, at 5 us and 40 Gb/s".into(),
        x: SeriesAxis::Numbers("memory that stays local, %".into()),
        y_label: "mean loss, %".into(),
        y_log: false,
        series: ProgramClass::ALL.map(by_class).to_vec(),
        ranges: Some("95 % interval".into()),
    };
    let is_drawn = |chart: &SeriesChart| chart.series.iter().any(|series| !series.points.is_empty());
    [heat].into_iter().chain(Some(classes).filter(is_drawn).map(|chart| chart.figure())).collect()
}

/// Returns the table of all programs as Markdown, or an empty text if there are no programs.
pub fn table(programs: &[StudyProgram], found: &[ProgramFound]) -> String {
    let mapped = mapped(programs, found);
    if mapped.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n| program | stands for | native | footprint | loss at 5 us, 40 Gb/s | at 3 us, 100 Gb/s | pages from remote memory | |\n\
         |---|---|--:|--:|--:|--:|--:|---|\n",
    );
    for MappedProgram { program, map } in &mapped {
        let one = MappedProgram { program, map: map.clone() };
        let cell = |network| match one.loss(SHARE, network) {
            Some(SlowdownLoss { value, low, high }) => format!("{value:.0} % ({low:.0} to {high:.0})"),
            None => "–".into(),
        };
        let why = reason(map);
        let class = program.class.map_or(String::new(), |class| format!(" ({})", class.name()));
        let _ = writeln!(
            text,
            "| {} | {}{class} | {} | {:.0} MB | {} | {} | {} | {} |",
            program.name,
            program.stands_for,
            map.native_s.map_or("–".into(), |s| format!("{s:.2} s")),
            map.footprint_bytes as f64 / 1e6,
            cell(NETWORKS[0]),
            cell(NETWORKS[2]),
            one.swap_bytes_per_s().map_or("–".into(), |rate| format!("{:.2} GB/s", rate / 1e9)),
            [why.as_str(), program.note.as_str()].join(" ").trim(),
        );
    }
    text
}

/// Returns a sentence with the local shares whose losses are withheld, and the reason of the first; empty if there are none.
fn reason(map: &SlowdownMap) -> String {
    let withheld: Vec<&MapLocal> = map.locals.iter().filter(|local| local.withheld.is_some()).collect();
    let shares: Vec<String> = withheld.iter().map(|local| local.local.replace('%', " %")).collect();
    let first = withheld.first().and_then(|local| local.withheld.as_ref());
    first.map_or(String::new(), |why| format!("Withheld with {} local: {}.", shares.join(", "), why.text))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::program::tests::program;
    use super::*;
    use unrack_record::{Disturbance, OtherWork};

    /// Returns a map whose losses are proportional to the latency. `losses` has the loss in percent at 5 us, by local share.
    pub(in super::super) fn map(losses: &[(&str, f64)], fetches: u64) -> SlowdownMap {
        let local = |(share, at_5us): &(&str, f64)| {
            let of = |factor: f64| {
                NETWORKS
                    .map(|network| vec![1.0 + factor * at_5us / 100.0 * network.latency_ns / 5e3; 2])
                    .to_vec()
            };
            let (low, high) = (of(0.9), of(1.2));
            let pair =
                |(low, high): (&Vec<f64>, &Vec<f64>)| low.iter().zip(high).map(|(l, h)| [*l, *h]).collect();
            MapLocal {
                local: (*share).into(),
                local_bytes: 0,
                fetches,
                points: Vec::new(),
                fit: None,
                withheld: None,
                rough: None,
                slowdown: Some(of(1.0)),
                slowdown_ci95: Some(low.iter().zip(&high).map(pair).collect()),
            }
        };
        let before = OtherWork { others_cores: 0.0, steal_cores: 0.0, waiting: None, queue: 0 };
        SlowdownMap {
            version: String::new(),
            command: Vec::new(),
            native_s: Some(1.0),
            footprint_bytes: 200_000_000,
            floor_ns: None,
            latencies_ns: NETWORKS.map(|network| network.latency_ns).to_vec(),
            bandwidths_bps: vec![40_000_000_000, 100_000_000_000],
            locals: losses.iter().map(local).collect(),
            disturbance: Disturbance { cores: 2, before, waited_s: 0.0, runs: 0, disturbed: Vec::new() },
            warnings: Vec::new(),
            machine: None,
        }
    }

    pub(in super::super) fn programs(classes: &[ProgramClass]) -> Vec<StudyProgram> {
        let of = |(n, class): (usize, &ProgramClass)| StudyProgram {
            measure: Measurement::Map,
            class: Some(*class),
            ..program(&format!("p{n}"))
        };
        classes.iter().enumerate().map(of).collect()
    }

    pub(in super::super) fn found(maps: &[SlowdownMap]) -> Vec<ProgramFound> {
        let of = |(n, map): (usize, &SlowdownMap)| ProgramFound {
            program: format!("p{n}"),
            answer: serde_json::to_value(map).unwrap(),
        };
        maps.iter().enumerate().map(of).collect()
    }

    #[test]
    fn the_loss_of_a_class_is_the_mean_of_its_programs() {
        let programs = programs(&[ProgramClass::Dolphin, ProgramClass::Dolphin, ProgramClass::Shark]);
        let maps = [
            map(&[("20%", 8.0), ("25%", 4.0), ("40%", 1.0)], 1000),
            map(&[("20%", 4.0), ("25%", 2.0), ("40%", 1.0)], 500),
            map(&[("20%", 40.0), ("25%", 20.0), ("40%", 6.0)], 5000),
        ];
        let values = values(&mapped(&programs, &found(&maps)));
        let of = |name: &str| (values[name] * 1e6).round() / 1e6;
        assert_eq!((of("dolphins-5us-40g-25-loss"), of("p0-5us-40g-loss")), (3.0, 4.0));
        assert_eq!(of("sharks-3us-100g-25-loss"), 12.0);
        // The intervals of both programs reach from 10 % below to 20 % above the value: 0.4 and 0.2 below, 0.8 and 0.4 above.
        assert_eq!(of("dolphins-5us-40g-25-loss.low"), ((3.0 - 0.2f64.sqrt() / 2.0) * 1e6).round() / 1e6);
        assert_eq!(of("dolphins-5us-40g-25-loss.high"), ((3.0 + 0.8f64.sqrt() / 2.0) * 1e6).round() / 1e6);
        assert_eq!(of("dolphins-5us-40g-local"), 25.0);
        assert_eq!(of("sharks-3us-100g-local"), 40.0);
        assert_eq!(of("sharks-5us-40g-local"), 100.0, "6 % with the largest share");
        assert_eq!(of("classes-in-order"), 1.0);
        assert_eq!(of("faster-link-spares"), 0.0, "losses of these maps are of the latency alone");
    }

    #[test]
    fn a_program_with_one_share_counts_at_that_one_alone() {
        let programs = programs(&[ProgramClass::Shark, ProgramClass::Shark]);
        let maps =
            [map(&[("25%", 30.0)], 10), map(&[("20%", 40.0), ("25%", 20.0), ("40%", 6.0), ("60%", 3.0)], 50)];
        let found = found(&maps);
        let mapped = mapped(&programs, &found);
        let values = values(&mapped);
        let of = |name: &str| (values[name] * 1e6).round() / 1e6;
        assert_eq!((of("sharks-5us-40g-25-loss"), of("sharks-5us-40g-20-loss")), (25.0, 40.0));
        assert_eq!((of("sharks-5us-40g-local"), of("sharks-60-local-spare")), (60.0, 3.0));
        assert!((of("sharks-60-local-spare.low") - (3.0 - 0.6f64.hypot(0.6))).abs() < 1e-5);
    }

    #[test]
    fn a_withheld_program_withholds_its_class() {
        let programs = programs(&[ProgramClass::Shark, ProgramClass::Shark]);
        let mut second = map(&[("25%", 2.0)], 10);
        second.locals[0].slowdown = None;
        second.locals[0].withheld = Some(unrack_record::Warning::new("scatter", "too uncertain"));
        let maps = [map(&[("25%", 4.0)], 10), second];
        assert!(!values(&mapped(&programs, &found(&maps))).contains_key("sharks-5us-40g-25-loss"));
        let table = table(&programs, &found(&maps));
        assert!(table.contains("| p1 |  (sharks) | 1.00 s | 200 MB | – | – |"), "{table}");
        assert!(table.contains("| Withheld with 25 % local: too uncertain. "), "{table}");
    }
}
