//! `unrack pool fence`: declares that a host has ended.

use crate::failure::{CommandFailure, say};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use unrack_pool::wire::Denied;
use unrack_pool::{Client, Error, socket};

/// Time for which a host that has ended may still be considered running.
const JUST_NOW: Duration = Duration::from_millis(1500);

#[derive(clap::Args)]
pub(super) struct Args {
    /// Number of the host, as `unrack pool ls` lists it. Its power is off, or its virtual machine has ended: while it
    /// could still write, it would write into what others have by then
    #[arg(value_name = "HOST")]
    host: u32,
    /// Declare it dead although its heartbeat moves: its manager then ends its programs, which may write into reused sections until
    /// they have ended
    #[arg(long)]
    force: bool,
    /// Socket of the pool of this host [default: unrack/pool.sock in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Runs `unrack pool fence`.
pub(super) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let socket = args.socket.unwrap_or_else(socket::default_socket);
    let pool = Client::connect_as(socket, "unrack pool fence")?;
    let start = Instant::now();
    loop {
        match pool.declare_ended(args.host, args.force) {
            // A host that was switched off just now wrote its last heartbeat shortly before, so the manager may still count it as running.
            Err(Error::Denied(Denied::HostRuns(_))) if start.elapsed() < JUST_NOW => {
                std::thread::sleep(JUST_NOW / 10);
            }
            declared => break declared?,
        }
    }
    say(&format!("host {} is declared dead; its sections are free", args.host));
    Ok(ExitCode::SUCCESS)
}
