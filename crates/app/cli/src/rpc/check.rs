//! `unrack rpc check`: makes calls, and compares every byte.

use crate::failure::{CommandFailure, say};
use crate::stdout::print;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_pool::socket;
use unrack_rpc_bench::check::{CheckPlan, check};
use unrack_units::Bytes;

pub(super) const EXAMPLES: &str = "\
Examples:
  unrack rpc bench --serve /run/pool.sock      on one host, until its pool ends
  unrack rpc check --pool /run/pool.sock       on another that shares the device, or on the same

Requests are of 64 B to 2 MiB, mostly small, with 0, 1 and 16 further ones under way; both sides compare every byte. A \
difference means that the hosts do not share the memory, or that it is not of the kind for which it was formatted: \
`unrack pool format --memory incoherent` is right for any.";

#[derive(clap::Args)]
pub(super) struct Args {
    /// Socket of this host's pool [default: unrack/pool.sock in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH")]
    pool: Option<PathBuf>,
    /// Calls to make
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    calls: u64,
    /// Streams to open, of 1 to 20 parts each
    #[arg(long, value_name = "N", default_value_t = 200)]
    streams: u64,
    /// Seed of sizes and contents
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print what was compared as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `unrack rpc check`.
pub(super) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let plan = CheckPlan { calls: args.calls, streams: args.streams, windows: [0, 1, 16], seed: args.seed };
    let checked = check(&args.pool.unwrap_or_else(socket::default_socket), &plan)?;
    if args.json {
        let text =
            serde_json::to_string(&checked).map_err(|error| CommandFailure::Failed(error.to_string()))?;
        print(&format!("{text}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let [calls, parts] = [checked.call_bytes, checked.part_bytes].map(Bytes::new);
    say(&format!(
        "{} calls with {calls} and {} streams with {} parts of {parts}: every byte is as it was written",
        checked.calls, checked.streams, checked.parts
    ));
    Ok(ExitCode::SUCCESS)
}
