//! `unrack docs`: the documentation site that is installed with the command.

use crate::failure::{CommandFailure, say};
use crate::stdout::print;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack docs            print the path of the first page, and open it if there is a display
  unrack docs --print    print it only

The pages are files: they need no server and no network.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the path of the first page, and open nothing
    #[arg(long)]
    print: bool,
}

/// Runs `unrack docs`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let page = page().map_err(CommandFailure::Lacking)?;
    print(&format!("{}\n", page.display()))?;
    if !args.print && has_display() && open(&page).is_err() {
        say("xdg-open is not installed: open this page in a browser");
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the first page of the documentation, in the folder of `make install` or in that of `make docs`.
pub(crate) fn page() -> Result<PathBuf, String> {
    let executable = std::env::current_exe().unwrap_or_default();
    let above = executable.ancestors().nth(2).unwrap_or(Path::new("/"));
    let installed = above.join("share/doc/unrack/site/index.html");
    let built = above.join("site/index.html");
    [&installed, &built].into_iter().find(|page| page.is_file()).cloned().ok_or_else(|| {
        format!("{} is not installed: run `make docs` and `make install`", installed.display())
    })
}

fn has_display() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Starts the user's browser, which keeps running after this command has ended.
fn open(page: &Path) -> std::io::Result<()> {
    let quiet = || Stdio::null();
    Command::new("xdg-open").arg(page).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().map(drop)
}
