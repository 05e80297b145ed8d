//! `unrack pool ls`: lists the contents of a pool.

use crate::failure::CommandFailure;
use crate::stdout::print;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use unrack_pool::listing::Listing;
use unrack_pool::{Client, socket};

/// Time that programs have to report their use. A program that does not report in time, for example because it is stopped, is listed with
/// its last report.
const COUNT: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub(super) struct Args {
    /// Socket of the pool [default: unrack/pool.sock in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print one JSON object, with every segment
    #[arg(long)]
    json: bool,
}

/// Runs `unrack pool ls`.
pub(super) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let client = Client::connect_as(args.socket.unwrap_or_else(socket::default_socket), "unrack pool ls")?;
    client.count()?;
    std::thread::sleep(COUNT);
    let listing = Listing::read(&client)?;
    if args.json {
        let text =
            serde_json::to_string(&listing).map_err(|error| CommandFailure::Failed(error.to_string()))?;
        print(&format!("{text}\n"))?;
    } else {
        print(&listing.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
