//! Command `unrack-programs`: see the documentation of the crate.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;
use unrack_programs::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("unrack-programs: {error}");
            error.exit_code()
        }
    }
}
