//! `unrack __touch-swap`: the program that measures the cost of the kernel's page faults; see [`unrack_swap::touch`].

use crate::failure::CommandFailure;
use std::io::Read;
use std::process::ExitCode;
use unrack_swap::touch::touch;

/// Arguments of the hidden verb.
#[derive(clap::Args)]
pub(crate) struct TouchArgs {
    #[arg(long)]
    pages: usize,
    #[arg(long)]
    threads: usize,
}

impl TouchArgs {
    /// Touches pages with the contents read from stdin, and prints the times.
    pub(crate) fn main(self) -> Result<ExitCode, CommandFailure> {
        let mut contents = Vec::new();
        let read = std::io::stdin().read_to_end(&mut contents);
        let touched = read.and_then(|_| touch(self.pages, self.threads, &contents, std::io::stdout()));
        touched.map_err(|why| CommandFailure::Failed(why.to_string()))?;
        Ok(ExitCode::SUCCESS)
    }
}
