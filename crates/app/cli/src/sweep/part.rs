//! Part of a sweep that is run separately: its points, and the description of the whole sweep in its folder.

use crate::failure::CommandFailure;
use serde::{Deserialize, Serialize};
use std::path::Path;
use unrack_grid::sweep::{GridPlan, SweepPart};
use unrack_record::{RunFolder, read_json};

/// Parses a part such as `2/4`, the second of four.
pub(super) fn parsed(text: &str) -> Result<SweepPart, String> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number > 0);
    let part = text
        .split_once('/')
        .and_then(|(part, of)| Some(SweepPart { number: number(part)?, of: number(of)? }));
    match part {
        Some(part) if part.number <= part.of => Ok(part),
        _ => Err("a part is two numbers from 1 on, such as 2/4 for the second of four".into()),
    }
}

/// Description of the whole sweep in the folder of a part. It has all that the folder of the sweep needs in addition to the results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PartFile {
    pub part: SweepPart,
    pub plan: GridPlan,
    /// Scenario file, as named on the command line.
    pub file: String,
    /// Seed of the first point.
    pub seed: u64,
    /// Scenario of the first point, complete with all values.
    pub scenario: String,
    /// Settings of the command, for the manifest.
    pub settings: serde_json::Value,
}

impl PartFile {
    /// Writes the file of this part. Its name has the number of the part, because parts may share a folder.
    pub(super) fn write(&self, folder: &RunFolder) -> Result<(), CommandFailure> {
        let SweepPart { number, of } = self.part;
        Ok(folder.write_json(&format!("{PREFIX}{number}-of-{of}.json"), self)?)
    }

    /// Returns the files of all parts in a folder.
    pub(super) fn all_in(folder: &Path) -> Result<Vec<PartFile>, CommandFailure> {
        let failed =
            |why: &dyn std::fmt::Display| CommandFailure::Usage(format!("{}: {why}", folder.display()));
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|why| failed(&why))? {
            let name = entry.map_err(|why| failed(&why))?.file_name().to_string_lossy().into_owned();
            if name.starts_with(PREFIX) && name.ends_with(".json") {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.iter().map(|name| read_json(folder.join(name)).map_err(|why| failed(&why))).collect()
    }

    /// Returns the message for the end of the part.
    pub(super) fn done(&self, out: &Path) -> String {
        let SweepPart { number, of } = self.part;
        let all = self.plan.points.len();
        let own = (0..all).filter(|index| self.part.has(*index)).count();
        let out = out.display();
        format!(
            "part {number} of {of}, {own} of {all} points, is in {out}; `unrack sweep merge` makes the table"
        )
    }
}

const PREFIX: &str = "part-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_two_numbers_from_one_on() {
        assert_eq!(parsed("2/4"), Ok(SweepPart { number: 2, of: 4 }));
        assert_eq!(parsed("1/1"), Ok(SweepPart::WHOLE));
        for wrong in ["", "2", "0/4", "5/4", "a/4", "2/", "-1/4", "1/0", "1/4/2", "1/99999999999"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_point_is_in_one_part() {
        for of in 1..7 {
            for index in 0..20 {
                let has = |number: &u32| SweepPart { number: *number, of }.has(index);
                assert_eq!((1..=of).filter(has).count(), 1);
            }
        }
    }
}
