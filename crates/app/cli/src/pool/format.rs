//! `unrack pool format`: prepares devices for hosts that share them.

use super::serve::{mode, paths};
use crate::failure::{CommandFailure, say};
use crate::stdout::print;
use serde::Serialize;
use std::process::ExitCode;
use unrack_pool::SECTION;
use unrack_pool::cache_control::MemoryKind;
use unrack_pool::manager::{Format, format};
use unrack_units::Bytes;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Devices such as /dev/dax0.0, the memory of a PCI device (/sys/bus/pci/devices/*/resource2), or files, separated
    /// by commas: what is in them is lost
    #[arg(value_name = "PATHS")]
    devices: String,
    /// Number of hosts that may share them, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 4)]
    hosts: u32,
    /// Bytes placed on one of several devices before the next
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    interleave: Bytes,
    /// Access of all hosts to the memory: coherent, incoherent (lines are flushed), uncached, or model (for tests)
    #[arg(long, value_name = "MODE", default_value = "incoherent", value_parser = mode)]
    memory: MemoryKind,
    /// Bytes of the queue area of each pair of programs
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    queue: Bytes,
    /// Format the devices even if a host seems to serve them
    #[arg(long)]
    force: bool,
    /// Print what was formatted as one JSON object
    #[arg(long)]
    json: bool,
}

/// Result of `--json`.
#[derive(Serialize)]
struct Formatted {
    devices: u32,
    hosts: u32,
    bytes: u64,
    granularity_bytes: u64,
    queue_bytes: u64,
    memory: MemoryKind,
    pool: String,
}

/// Runs `unrack pool format`.
pub(super) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let asked = Format {
        paths: paths(&args.devices),
        granularity: args.interleave.get(),
        hosts: args.hosts,
        queue_bytes: args.queue,
        mode: args.memory,
        force: args.force,
    };
    let made = format(&asked)?;
    let formatted = Formatted {
        devices: made.set.devices,
        hosts: made.hosts,
        bytes: u64::from(made.sections) * SECTION,
        granularity_bytes: made.set.granularity.get(),
        queue_bytes: made.queue_bytes,
        memory: made.mode,
        pool: format!("{:032x}", made.pool),
    };
    match args.json {
        true => {
            let text = serde_json::to_string(&formatted)
                .map_err(|error| CommandFailure::Failed(error.to_string()))?;
            print(&format!("{text}\n"))?;
        }
        false => {
            let bytes = Bytes::new(formatted.bytes);
            say(&format!("{} formatted for {} hosts: {bytes}, {}", args.devices, made.hosts, made.mode));
        }
    }
    Ok(ExitCode::SUCCESS)
}
