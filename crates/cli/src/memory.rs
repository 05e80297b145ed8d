//! `unrack memory`: a memory node, from whose memory programs elsewhere page.

use crate::failure::{Failure, say};
use serde::Serialize;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_node::{Error, Listen, Node, Options};
use unrack_units::Bytes;

pub const EXAMPLES: &str = "\
Examples:
  unrack memory serve --listen 127.0.0.1:7000 --capacity 4GiB
                                              pages come and go over TCP
  unrack memory serve --shm /tmp/unrack.sock --capacity 4GiB
                                              pages are copied through shared memory

It runs until SIGINT or SIGTERM and then says what it did; SIGUSR1 asks for that at any time. Programs \
whose pages it holds end with an error when it ends. There is no encryption and no password: listen only \
where everybody who can connect may.";

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Holds pages for the programs that connect
    Serve(Serve),
}

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("where").required(true).args(["listen", "shm"])))]
struct Serve {
    /// Serve over TCP at this IPv4 address; port 0 takes one that is free
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddrV4>,
    /// Hand out shared memory through a socket at this path
    #[arg(long, value_name = "PATH")]
    shm: Option<PathBuf>,
    /// Memory for all programs together
    #[arg(long, value_name = "SIZE")]
    capacity: Bytes,
    /// Print where it listens as one JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// The status line of `--json`.
#[derive(Serialize)]
struct Status<'a> {
    transport: &'a str,
    listen: String,
    capacity_bytes: u64,
    pid: u32,
    version: &'a str,
}

pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let Verb::Serve(serve) = args.verb;
    let listen = match (serve.listen, serve.shm) {
        (Some(address), None) => Listen::Tcp(address.into()),
        (None, Some(path)) => Listen::Shared(path),
        _ => return Err(Failure::Usage("give either --listen or --shm".into())),
    };
    let options = Options::new(listen, serve.capacity);
    let started = |node: &Node| tell_start(node, serve.capacity, serve.json);
    let done =
        unrack_node::signals::serve(&options, started, |statistics| say(statistics.to_string().trim()));
    say(done?.to_string().trim());
    Ok(ExitCode::SUCCESS)
}

fn tell_start(node: &Node, capacity: Bytes, json: bool) {
    let transport = match node.address() {
        Listen::Tcp(_) => "tcp",
        Listen::Shared(_) => "shm",
    };
    let listen = node.address().to_string();
    if !json {
        return say(&format!("memory node at {listen} ({transport}), {capacity}"));
    }
    let capacity_bytes = capacity.get();
    let version = env!("CARGO_PKG_VERSION");
    let status = Status { transport, listen, capacity_bytes, pid: std::process::id(), version };
    // Plain numbers and text: nothing to fail on, but stdout may be closed, and then nobody reads it.
    let line = serde_json::to_string(&status).unwrap_or_default();
    let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{line}\n").as_bytes());
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Capacity { .. } => Failure::Usage(error.to_string()),
            Error::Listen { .. } | Error::Signals(_) => Failure::Failed(error.to_string()),
        }
    }
}
