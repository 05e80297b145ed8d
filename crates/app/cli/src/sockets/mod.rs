//! `unrack sockets`: runs a program whose stream sockets pass bytes by reference.

mod broker;

use crate::failure::{CommandFailure, say};
use crate::stdout::print;
use broker::ServedBroker;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use unrack_socket::broker::SharingHost;
use unrack_units::Bytes;

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack sockets -- redis-server              in one terminal
  unrack sockets -- redis-benchmark -q        in another: its connections pass bytes by reference
  unrack sockets -- sh -c 'server & client'   both ends below one command
  unrack sockets --json -- ./test             what was carried, as one JSON object; CMD prints to stderr
  unrack sockets serve --capacity 8GiB        for programs that preload the library themselves:
  LD_PRELOAD=libunrack_sockets.so ./program

Stream sockets (TCP over IPv4 and IPv6, Unix sockets) change over when both ends have the library and a connection has \
lasted for 16 calls. Others stay with the kernel, and no byte of ours is sent to them: static programs, Go programs, \
io_uring, other machines. Connections remain visible to ss, lsof and /proc/net.";

/// File name of the preload library.
const LIBRARY: &str = "libunrack_sockets.so";

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    place: broker::BrokerSocket,
    /// Print what was carried as one JSON object on stdout; the program's own output goes to stderr
    #[arg(long)]
    json: bool,
    /// Calls after which a connection passes its bytes by reference [default: 16]
    #[arg(long, value_name = "N")]
    after: Option<u32>,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    program: Vec<OsString>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Connects the ends of connections to each other, until SIGINT or SIGTERM
    Serve(broker::BrokerSocket),
}

/// Answer of `--json`.
#[derive(Serialize)]
struct SocketsReport {
    command: Vec<String>,
    /// Exit status of the program, in the convention of shells.
    status: i32,
    /// Connections that passed bytes by reference.
    carried: u64,
    /// Connections for which the pool had no room.
    refused: u64,
    bytes_by_reference: u64,
}

/// Runs `unrack sockets`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    if let Some(Verb::Serve(place)) = &args.verb {
        return broker::serve(place);
    }
    let library = library().map_err(CommandFailure::Lacking)?;
    let serving = ServedBroker::start(&args.place, &[])?;
    let status = run(command(&args, &library, &serving.path), &args.program[0])?;
    let (carried, refused, bytes) = serving.stop();
    if args.json {
        let command = args.program.iter().map(|word| word.to_string_lossy().into()).collect();
        let answer = SocketsReport { command, status, carried, refused, bytes_by_reference: bytes };
        print(&format!("{}\n", serde_json::to_string(&answer).expect("plain data")))?;
    } else {
        tell(carried, bytes);
    }
    if refused > 0 {
        say(&format!("{}; give more --capacity", full(refused)));
    }
    Ok(ExitCode::from(status as u8))
}

/// Runs a command on a host of a rack; its connections with `hosts` pass bytes by reference. The broker's socket is in `folder`. If no
/// broker serves there, this process becomes the broker. Returns the exit status of the command.
pub(crate) fn run_in_rack(
    folder: &Path,
    hosts: &[SharingHost],
    mut command: Command,
) -> Result<ExitCode, CommandFailure> {
    let cannot =
        |why: std::io::Error| CommandFailure::Failed(format!("cannot lock {}: {why}", folder.display()));
    let folder_file = std::fs::File::open(folder).map_err(cannot)?;
    // The lock makes sure that only one of several programs that start at the same time starts the broker.
    flock(&folder_file, FlockOperation::LockExclusive).map_err(|why| cannot(why.into()))?;
    let serving = ServedBroker::start(&broker::BrokerSocket::at(folder.join("sockets.sock")), hosts)?;
    drop(folder_file);
    command.env(unrack_socket::SOCKET_VARIABLE, &serving.path);
    let program = command.get_program().to_owned();
    let status = run(command, &program)?;
    let (carried, refused, bytes) = serving.stop();
    tell(carried, bytes);
    if refused > 0 {
        say(&full(refused));
    }
    Ok(ExitCode::from(status as u8))
}

fn tell(carried: u64, bytes: u64) {
    if carried > 0 {
        let noun = if carried == 1 { "connection" } else { "connections" };
        say(&format!("{carried} {noun} by reference, {}", about(bytes)));
    }
}

fn full(refused: u64) -> String {
    format!("{refused} connections stayed with the kernel: the pool was full")
}

/// Rounds a number of bytes to about three digits, for people.
fn about(bytes: u64) -> Bytes {
    let unit = [30, 20, 10].into_iter().find(|shift| bytes >> shift >= 10).unwrap_or(0);
    Bytes::new(bytes >> unit << unit)
}

/// Process number of the program, to which signals are forwarded.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass_on(signal: libc::c_int) {
    let program = PROGRAM.load(Ordering::Relaxed);
    if program > 0 {
        // SAFETY: the arguments are plain numbers, and `kill` may be called in a signal handler.
        unsafe { libc::kill(program, signal) };
    }
}

/// Returns the command of the program, with the library preloaded.
fn command(args: &Args, library: &Path, socket: &Path) -> Command {
    let mut command = Command::new(&args.program[0]);
    command.args(&args.program[1..]);
    command.env("LD_PRELOAD", preloads(library, std::env::var_os("LD_PRELOAD").as_deref()));
    command.env(unrack_socket::SOCKET_VARIABLE, socket);
    if let Some(after) = args.after {
        command.env(unrack_socket::AFTER_VARIABLE, after.to_string());
    }
    if args.json {
        command.stdout(Stdio::from(std::io::stderr()));
    }
    command
}

/// Runs a program, and returns its exit status in the convention of shells.
fn run(mut command: Command, program: &OsStr) -> Result<i32, CommandFailure> {
    let mut child = command.spawn().map_err(|error| {
        CommandFailure::Lacking(format!("cannot run {}: {error}", program.to_string_lossy()))
    })?;
    PROGRAM.store(child.id() as i32, Ordering::Relaxed);
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        // The terminal sends SIGINT to the program, too, so this process ignores it and waits for the program.
        let then = if signal == libc::SIGINT { libc::SIG_IGN } else { pass_on as *const () as usize };
        // SAFETY: the handler only calls `kill`.
        unsafe { libc::signal(signal, then) };
    }
    let ended = child
        .wait()
        .map_err(|error| CommandFailure::Failed(format!("cannot wait for the program: {error}")))?;
    Ok(ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0)))
}

/// Returns the libraries to preload: the library of `unrack sockets`, followed by those that the environment already preloads.
fn preloads(library: &Path, others: Option<&OsStr>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// Finds the library in the folder of this executable, or in the folder where it is installed.
pub(crate) fn library() -> Result<PathBuf, String> {
    let executable = std::env::current_exe().unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib/unrack").join(LIBRARY)];
    places
        .into_iter()
        .find(|place| place.is_file())
        .ok_or_else(|| format!("{LIBRARY} is not in {}: build the whole workspace", folder.display()))
}
