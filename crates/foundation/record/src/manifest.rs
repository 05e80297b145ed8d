//! Manifest of a run, `manifest.json`: the program, the machine, the time and the settings of the run, so that a result can be reproduced.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::{Build, HostRow, Machine};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    #[serde(flatten)]
    pub build: Build,
    pub command_line: Vec<String>,
    /// Text of the whole scenario, if the run had one.
    pub scenario: Option<String>,
    pub seed: u64,
    pub host: HostRow,
    /// Start of the run, UTC, formatted as in RFC 3339.
    pub started: String,
    pub wall_s: f64,
    /// Other settings of the run, in the form that its command chooses.
    pub settings: serde_json::Value,
}

/// A command in progress: the data that its manifest needs from its start.
#[derive(Debug)]
pub struct StartedCommand {
    build: Build,
    at: SystemTime,
    clock: Instant,
}

impl StartedCommand {
    /// Records the start of a run of this build.
    pub fn now(build: Build) -> StartedCommand {
        StartedCommand { build, at: SystemTime::now(), clock: Instant::now() }
    }

    /// Returns the manifest of this run. The run counts as ending now, and the command line is that of this process.
    pub fn manifest(&self, seed: u64, scenario: Option<String>, settings: serde_json::Value) -> Manifest {
        Manifest {
            build: self.build.clone(),
            command_line: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            scenario,
            seed,
            host: HostRow::this(),
            started: rfc3339(self.at.duration_since(UNIX_EPOCH).unwrap_or_default()),
            wall_s: self.clock.elapsed().as_secs_f64(),
            settings,
        }
    }

    /// Returns the `machine` part of this run's JSON, in which repeated runs may differ.
    pub fn machine(&self) -> Machine {
        Machine {
            build: self.build.clone(),
            host: HostRow::this(),
            wall_s: self.clock.elapsed().as_secs_f64(),
            packet_hops_per_s: None,
        }
    }
}

/// Formats a time as in `2026-11-21T09:05:00Z`.
fn rfc3339(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (year, month, day) = civil_from_days(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns year, month and day of a day counted from 1970-01-01.
///
/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": years begin on 1 March, so that the leap day is the last day of the year;
/// an era is 400 years.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        let text = |s| rfc3339(Duration::from_secs(s));
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(text(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn days_follow_each_other() {
        let mut previous = civil_from_days(0);
        for day in 1..200_000 {
            let date = civil_from_days(day);
            let (next_day, next_month) =
                ((previous.0, previous.1, previous.2 + 1), (previous.0, previous.1 + 1, 1));
            assert!([next_day, next_month, (previous.0 + 1, 1, 1)].contains(&date), "{previous:?} {date:?}");
            assert!(date > previous && date.1 <= 12 && date.2 <= 31);
            previous = date;
        }
    }

    #[test]
    fn a_manifest_survives_json() {
        let settings = serde_json::json!({ "local": "25%", "fabrics": ["edm", "cxl"] });
        let started = StartedCommand::now(Build::for_tests());
        let manifest = started.manifest(7, Some("seed = 7\n".into()), settings);
        let text = serde_json::to_string(&manifest).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
        assert!(manifest.wall_s >= 0.0 && !manifest.command_line.is_empty());
    }

    #[test]
    fn a_manifest_of_before_builds_had_hashes_is_read() {
        let mut old =
            serde_json::to_value(StartedCommand::now(Build::for_tests()).manifest(7, None, 0.into()))
                .unwrap();
        old["commit"] = serde_json::Value::Null;
        for key in ["tree_changed", "sources"] {
            old.as_object_mut().unwrap().remove(key).unwrap();
        }
        let build = serde_json::from_value::<Manifest>(old).unwrap().build;
        assert_eq!((build.commit, build.tree_changed, build.sources.as_str()), (None, None, ""));
    }
}
