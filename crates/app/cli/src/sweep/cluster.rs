//! `unrack sweep --cluster`: runs points on the workers of a Dask cluster, through the Python package.

use super::GridArgs;
use crate::failure::CommandFailure;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use unrack_compare::PARENT_VARIABLE;
use unrack_grid::{ScenarioOrigin, ScenarioSource};

/// Runs the points that are not in the folder yet on a cluster, and stores them in the folder.
pub(super) fn run(
    args: &GridArgs,
    scheduler: &str,
    source: &ScenarioSource,
    kept: &Path,
) -> Result<(), CommandFailure> {
    let python = python();
    check_package(&python).map_err(CommandFailure::Lacking)?;
    let mut command = Command::new(&python);
    command.args(["-m", "unrack.cluster", scheduler]).arg(&args.scenario).arg(kept);
    command.args(args.set.iter().map(|set| format!("--set={set}")));
    command.args(args.seeds.iter().map(|seeds| format!("--seeds={seeds}")));
    command.arg(format!("--transfers={}", args.transfers));
    let text = match &source.origin {
        ScenarioOrigin::Text { text, .. } => Some(text.as_str()),
        ScenarioOrigin::File(_) => None,
    };
    command.env(PARENT_VARIABLE, std::process::id().to_string());
    command.stdin(if text.is_some() { Stdio::piped() } else { Stdio::null() });
    let failed =
        |why: std::io::Error| CommandFailure::Failed(format!("cannot run {}: {why}", python.display()));
    let mut child = command.spawn().map_err(failed)?;
    pass(&mut child, text.unwrap_or_default()).map_err(failed)?;
    let text =
        "the cluster did not run all points, for the reason above; finished points are kept".to_string();
    match child.wait().map_err(failed)?.code() {
        Some(0) => Ok(()),
        Some(2) => Err(CommandFailure::Usage(text)),
        Some(3) => Err(CommandFailure::Lacking(text)),
        _ => Err(CommandFailure::Failed(text)),
    }
}

/// Returns the Python interpreter: the one that `UNRACK_PYTHON` names, or `python3` in the folder of this command, where a wheel installs
/// it, or `python3` on `PATH`.
fn python() -> PathBuf {
    let named = std::env::var_os("UNRACK_PYTHON").map(PathBuf::from);
    let beside = || std::env::current_exe().ok().map(|own| own.with_file_name("python3"));
    named.or_else(|| beside().filter(|path| path.exists())).unwrap_or_else(|| "python3".into())
}

/// Checks that the Python package and Dask are installed.
///
/// # Errors
/// If one is missing: the text states which one, and what to do.
pub(crate) fn check_cluster() -> Result<(), String> {
    check_package(&python())
}

fn check_package(python: &Path) -> Result<(), String> {
    let tried = Command::new(python).args(["-c", "import unrack.cluster"]).stdin(Stdio::null()).output();
    let why = match tried {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            said.trim().lines().last().unwrap_or("it ends early").to_string()
        }
        Err(why) => why.to_string(),
    };
    Err(format!(
        "--cluster takes Python with the packages unrack and distributed, and {} cannot import them ({why}): install \
         them there by pip, or set UNRACK_PYTHON to an interpreter that has them",
        python.display()
    ))
}

/// Writes the text of a scenario that has no file to the child's standard input.
fn pass(child: &mut Child, text: &str) -> std::io::Result<()> {
    match child.stdin.take() {
        Some(mut stdin) => stdin.write_all(text.as_bytes()),
        None => Ok(()),
    }
}
