//! `unrack man`: manual pages, generated from the help texts.

use crate::failure::{CommandFailure, say};
use clap::Command;
use clap_mangen::Man;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unrack_record::atomic_write;

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack man ~/.local/share/man/man1 && man unrack-compare";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of the pages; created if absent
    folder: PathBuf,
}

/// Runs `unrack man`.
pub(crate) fn main(args: Args, mut command: Command) -> Result<ExitCode, CommandFailure> {
    let failed = |why: std::io::Error| CommandFailure::Failed(format!("{}: {why}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    command.build();
    let written = write(&command, "unrack", &args.folder)?;
    say(&format!("wrote {written} pages to {}", args.folder.display()));
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command, and the pages of its subcommands that the help shows. Returns the number of pages.
fn write(command: &Command, name: &str, folder: &Path) -> Result<usize, CommandFailure> {
    let mut page = Vec::new();
    let rendered = Man::new(command.clone()).title(name).render(&mut page);
    rendered.map_err(|why| CommandFailure::Failed(format!("{name}: {why}")))?;
    atomic_write(folder.join(format!("{name}.1")), &page)?;
    let mut written = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        written += write(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    Ok(written)
}
