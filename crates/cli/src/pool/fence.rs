//! `unrack pool fence`: declares that a host has ended.

use crate::failure::{Failure, say};
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_pool::{Client, socket};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Number of the host, as `unrack pool ls` lists it. Its power is off, or its virtual machine has ended: while it
    /// could still write, it would write into what others have by then
    #[arg(value_name = "HOST")]
    host: u32,
    /// Socket of the pool of this host [default: unrack/pool.sock in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Runs `unrack pool fence`.
pub(super) fn main(args: Args) -> Result<ExitCode, Failure> {
    let socket = args.socket.unwrap_or_else(socket::default_socket);
    Client::connect_as(socket, "unrack pool fence")?.declare_ended(args.host)?;
    say(&format!("host {} is declared ended: what it had is free", args.host));
    Ok(ExitCode::SUCCESS)
}
