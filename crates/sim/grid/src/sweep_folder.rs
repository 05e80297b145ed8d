//! Folder of a sweep. The table of an earlier sweep is only replaced by one that has all of its points.

use crate::error::ScenarioRunError;
use crate::sweep::GridPlan;
use std::path::Path;
use unrack_record::{RecordError, RunFolder, RunPurpose, Sweep, read_json};

/// Table of a sweep, in its folder.
const TABLE: &str = "sweep.json";

/// Creates the folder of a sweep. If the folder holds an earlier sweep, it takes the folder over: it removes the table
/// and keeps the finished points. Messages use `name`, the name of the scenario file.
///
/// # Errors
/// If the folder holds the results of another run, or the table of a sweep with points that `plan` lacks, unless
/// `replace` is set; if it holds other files; or if it cannot be written.
pub fn create(
    path: &Path,
    plan: &GridPlan,
    name: &str,
    replace: bool,
) -> Result<RunFolder, ScenarioRunError> {
    if !replace && let Some(lost) = lost(path, plan) {
        return Err(ScenarioRunError::Refused(format!(
            "{} has a sweep {lost}: name another folder, or give --replace to replace its table (finished points are kept)",
            path.display()
        )));
    }
    let created = RunFolder::create(path, &RunPurpose::new("sweep", name, ""), replace);
    created.map_err(|why| match why {
        RecordError::Io { .. } => why.into(),
        _ => ScenarioRunError::Refused(why.to_string()),
    })
}

/// Describes what the table in the folder would lose if it were replaced; `None` if it would lose no points.
fn lost(path: &Path, plan: &GridPlan) -> Option<String> {
    let table = path.join(TABLE);
    if table.symlink_metadata().is_err() {
        return None;
    }
    match read_json::<Sweep>(&table).map(|earlier| plan.lacks(&earlier)) {
        Ok(0) => None,
        Ok(points) => Some(format!("with {points} points that are not in this grid")),
        Err(_) => Some("whose table this build cannot read".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::PlannedPoint;
    use unrack_testing::TestFolder;

    fn plan(hashes: &[&str]) -> GridPlan {
        let point =
            |hash: &&str| PlannedPoint { values: vec![], set: vec![], scenario_hash: hash.to_string() };
        GridPlan { keys: vec![], points: hashes.iter().map(point).collect(), asked: String::new() }
    }

    fn sweep_of(folder: &Path, hashes: &[&str]) {
        let made = create(folder, &plan(hashes), "a.toml", false).unwrap();
        let points = hashes.iter().map(|hash| format!(r#"{{"values": [], "scenario_hash": "{hash}"}}"#));
        let points = points.collect::<Vec<_>>().join(",");
        let text = format!(r#"{{"version": "1", "keys": [], "points": [{points}]}}"#);
        std::fs::write(made.path(TABLE), text).unwrap();
    }

    #[test]
    fn a_table_with_other_points_is_refused_and_left_alone() {
        let folder = TestFolder::new("sweep-folder");
        std::fs::write(folder.join(TABLE), "").ok();
        std::fs::remove_file(folder.join(TABLE)).unwrap();
        sweep_of(&folder, &["a", "b"]);
        let refused = create(&folder, &plan(&["a", "c"]), "a.toml", false).unwrap_err().to_string();
        assert!(refused.contains("--replace"), "{refused}");
        assert!(folder.join(TABLE).exists());
        create(&folder, &plan(&["a", "c"]), "a.toml", true).unwrap();
        assert!(!folder.join(TABLE).exists());
    }

    #[test]
    fn a_table_that_cannot_be_read_is_refused_and_left_alone() {
        let folder = TestFolder::new("sweep-folder-unreadable");
        create(&folder, &plan(&["a"]), "a.toml", false).unwrap();
        std::fs::write(folder.join(TABLE), "{").unwrap();
        let refused = create(&folder, &plan(&["a"]), "a.toml", false).unwrap_err().to_string();
        assert!(refused.contains("cannot read"), "{refused}");
        assert!(folder.join(TABLE).exists());
    }
}
