//! `unrack memory`: a memory node, which stores pages of programs that run elsewhere.

mod bench;

use crate::failure::{CommandFailure, say};
use crate::keys::Protection;
use serde::Serialize;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use unrack_node::{Error, Listen, Options, RunningNode};
use unrack_units::{Bytes, Share, Time};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack memory serve --listen 127.0.0.1:7000 --capacity 4GiB
                                              pages come and go over TCP
  unrack memory serve --shm /tmp/unrack.sock --capacity 4GiB
                                              pages are copied through shared memory

  unrack memory serve --listen 10.0.0.2:7000 --capacity 64GiB --per-client 16GiB
                                              beyond this machine: by keys, see `unrack keys`
  unrack memory bench 127.0.0.1:7000          pages alone, batched, merged and asynchronous

A node runs until SIGINT or SIGTERM, and then prints its statistics; SIGUSR1 prints them at any time. When it ends, \
programs whose pages it holds end with an error. Beyond loopback it encrypts, and serves only keys that it trusts; a \
shared-memory socket is for its user alone (chmod admits others).";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Holds pages for the programs that connect
    Serve(MemoryServeArgs),
    /// Measures latency and rate of a memory node for single, concurrent and batched requests
    Bench(bench::Bench),
}

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("where").required(true).args(["listen", "shm"])))]
struct MemoryServeArgs {
    /// Serve over TCP at this IPv4 address; port 0 takes one that is free
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddrV4>,
    /// Hand out shared memory through a socket at this path
    #[arg(long, value_name = "PATH")]
    shm: Option<PathBuf>,
    /// Memory for all programs together
    #[arg(long, value_name = "SIZE")]
    capacity: Bytes,
    /// Maximum memory of one client with all its processes: a share or a size. A client is one key; without keys it is one address,
    /// or one user on a Unix socket. The default leaves room for another client
    #[arg(long, value_name = "SHARE", default_value = unrack_node::node::USUAL_SHARE)]
    per_client: Share,
    /// Free the memory of a client that was silent for this time because it is stopped or cut off; 0s waits for ever
    #[arg(long, value_name = "TIME", default_value = "60s")]
    silence: Time,
    #[command(flatten)]
    protection: Protection,
    /// Print the address where it listens as one JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// Status line of `--json`.
#[derive(Serialize)]
struct NodeStatusLine<'a> {
    transport: &'a str,
    listen: String,
    capacity_bytes: u64,
    per_client_bytes: u64,
    /// Fingerprint of the key that clients have to trust; `None` without encryption.
    key: Option<String>,
    pid: u32,
    version: &'a str,
}

/// Runs `unrack memory`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let serve = match args.verb {
        Verb::Serve(serve) => serve,
        Verb::Bench(bench) => return bench::main(&bench).map(|()| ExitCode::SUCCESS),
    };
    let listen = match (serve.listen, serve.shm) {
        (Some(address), None) => Listen::Tcp(address.into()),
        (None, Some(path)) => Listen::Shared(path),
        _ => return Err(CommandFailure::Usage("give either --listen or --shm".into())),
    };
    let silence = Duration::from_nanos(serve.silence.as_ns());
    let options = Options {
        per_client: serve.per_client,
        silence: (!silence.is_zero()).then_some(silence),
        policy: serve.protection.policy(),
        ..Options::new(listen, serve.capacity)
    };
    let started = |node: &RunningNode| tell_start(node, &options, serve.json);
    let done =
        unrack_node::signals::serve(&options, started, |statistics| say(statistics.to_string().trim()));
    say(done?.to_string().trim());
    Ok(ExitCode::SUCCESS)
}

fn tell_start(node: &RunningNode, options: &Options, json: bool) {
    let transport = match node.address() {
        Listen::Tcp(_) => "tcp",
        Listen::Shared(_) => "shm",
    };
    let listen = node.address().to_string();
    let key = node.keys().map(|keys| keys.fingerprint().to_string());
    let (capacity, per_client) = (options.capacity, options.per_client.of(options.capacity));
    if !json {
        let key = key.map_or(String::new(), |key| format!(", encrypted by the key {key}"));
        return say(&format!(
            "memory node at {listen} ({transport}), {capacity}, {per_client} a client{key}"
        ));
    }
    let (capacity_bytes, per_client_bytes) = (capacity.get(), per_client.get());
    let version = env!("CARGO_PKG_VERSION");
    let pid = std::process::id();
    let status = NodeStatusLine { transport, listen, capacity_bytes, per_client_bytes, key, pid, version };
    // Serializing plain numbers and text cannot fail. If stdout is closed, the line is lost.
    let line = serde_json::to_string(&status).unwrap_or_default();
    let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{line}\n").as_bytes());
}

impl From<Error> for CommandFailure {
    fn from(error: Error) -> CommandFailure {
        match error {
            Error::Capacity { .. } | Error::Share { .. } | Error::LargeShare { .. } => {
                CommandFailure::Usage(error.to_string())
            }
            Error::Keys(why) => why.into(),
            Error::Listen { .. } | Error::Signals(_) => CommandFailure::Failed(error.to_string()),
        }
    }
}
