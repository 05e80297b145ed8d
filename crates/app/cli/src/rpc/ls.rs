//! `unrack rpc ls`: lists the services of a pool.

use crate::failure::CommandFailure;
use crate::stdout::print;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_pool::{Client, socket};
use unrack_rpc::listing::ServiceListing;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Socket of the pool [default: unrack/pool.sock in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `unrack rpc ls`.
pub(super) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let client = Client::connect_as(args.socket.unwrap_or_else(socket::default_socket), "unrack rpc ls")?;
    let listing = ServiceListing::read(&client)?;
    if args.json {
        let text =
            serde_json::to_string(&listing).map_err(|error| CommandFailure::Failed(error.to_string()))?;
        print(&format!("{text}\n"))?;
    } else {
        print(&listing.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
