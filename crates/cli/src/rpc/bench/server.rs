//! The server's process: a pool and a server. It ends when its parent closes its standard input, or is gone.

use super::pin;
use crate::failure::Failure;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use unrack_pool::cache_control::Mode;
use unrack_pool::{Manager, Options};
use unrack_rpc::server::{Answered, Call, Serving};
use unrack_rpc::view::{View, ViewMut};
use unrack_rpc::{Method, Server, Waiting, server};
use unrack_units::{Bytes, Share};

pub const SERVICE: &str = "bench";
/// Method that reads the request and writes an answer of the same length.
pub const TOUCH: Method = Method::named("touch");
/// Method that answers with as many bytes, untouched.
pub const PASS: Method = Method::named("pass");
/// Method that returns the nanoseconds of processor time that this process has used.
pub const PROCESSOR: Method = Method::named("processor");

#[derive(clap::Args)]
pub struct Args {
    /// Folder to make for the pool; it is removed with the server
    folder: PathBuf,
    #[arg(long)]
    memory: Mode,
    #[arg(long)]
    waiting: Waiting,
    #[arg(long)]
    capacity: Bytes,
    #[arg(long)]
    core: usize,
}

/// Serves a pool and the bench's methods until the parent closes standard input or is gone.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    pin(args.core)?;
    let folder = args.folder.display();
    std::fs::create_dir(&args.folder)
        .map_err(|error| Failure::Failed(format!("cannot make {folder}: {error}")))?;
    let served = serve(&args);
    if served.is_ok() {
        // If the parent is gone already, there is nothing to read either.
        let _ = std::io::stdout().write_all(b"ready\n");
        let _ = std::io::stdin().read(&mut [0]);
    }
    let ended = served.map(drop);
    let _ = std::fs::remove_dir_all(&args.folder);
    ended.map(|()| ExitCode::SUCCESS)
}

/// Starts the pool, and the service over it.
fn serve(args: &Args) -> Result<(Serving, Manager), Failure> {
    let mut pool = Options::new(socket(&args.folder), args.capacity);
    pool.mode = args.memory;
    // There are no other clients.
    pool.per_client = Some(Share::Size(args.capacity));
    let manager = Manager::start(&pool)?;
    let options = server::Options { waiting: args.waiting, ..server::Options::default() };
    let serving = Server::new(SERVICE, options)
        .method("touch", touch)
        .method("pass", |call| {
            let length = call.request().len();
            call.answer(length)?;
            Ok(())
        })
        .method("processor", |call| {
            let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
            let ns = used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64;
            call.answer(8)?.put(0, ns).expect("eight bytes");
            Ok(())
        })
        .serve(manager.socket())?;
    Ok((serving, manager))
}

fn touch(call: &mut Call<'_>) -> Answered {
    let sum = read(call.request());
    let length = call.request().len();
    write(call.answer(length)?, sum);
    Ok(())
}

/// Returns the sum of every whole word of a message.
#[inline]
pub fn read(message: View<'_>) -> u64 {
    let lines = message.len() / 64;
    let words = (lines * 8..message.len() / 8).map(|word| message.get::<u64>(word * 8).expect("inside"));
    let lines = (0..lines).map(|line| message.get::<[u64; 8]>(line * 64).expect("inside"));
    lines.flatten().chain(words).fold(0, u64::wrapping_add)
}

/// Writes every whole word of a message.
#[inline]
pub fn write(mut message: ViewMut<'_>, seed: u64) {
    let lines = message.len() / 64;
    for line in 0..lines {
        message.put(line * 64, [seed ^ line as u64; 8]).expect("inside");
    }
    for word in lines * 8..message.len() / 8 {
        message.put(word * 8, seed).expect("inside");
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("pool")
}

/// The server's process, as its parent sees it.
pub struct Peer {
    process: Child,
    folder: PathBuf,
}

impl Peer {
    /// Starts the process, and returns when it takes calls.
    pub fn start(memory: Mode, waiting: Waiting, capacity: Bytes, core: usize) -> Result<Peer, Failure> {
        let failed = |error| Failure::Failed(format!("cannot start the server: {error}"));
        let folder = std::env::temp_dir().join(format!("unrack-rpc-bench-{}", std::process::id()));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["rpc", "__serve"]).arg(&folder);
        command.args(["--memory", &memory.to_string(), "--waiting", &waiting.to_string()]);
        command.args(["--capacity", &capacity.to_string(), "--core", &core.to_string()]);
        // In its own process group, it is not interrupted before it has cleaned up.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = command.spawn().map_err(failed)?;
        let mut peer = Peer { process, folder };
        let mut line = String::new();
        let said = peer.process.stdout.take().expect("it is piped");
        match BufReader::new(said).read_line(&mut line) {
            Ok(read) if read > 0 => Ok(peer),
            _ => Err(peer.failed()),
        }
    }

    /// Returns the socket of the pool.
    pub fn socket(&self) -> PathBuf {
        socket(&self.folder)
    }

    /// Returns the failure of a process that ended instead of serving, after it said why on stderr.
    fn failed(&mut self) -> Failure {
        let text = "the server did not start: see above".to_string();
        match self.process.wait().ok().and_then(|status| status.code()) {
            Some(2) => Failure::Usage(text),
            Some(3) => Failure::Lacking(text),
            _ => Failure::Failed(text),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
        // The process removes the folder itself, unless it was killed.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl From<unrack_rpc::Error> for Failure {
    fn from(error: unrack_rpc::Error) -> Failure {
        match error {
            unrack_rpc::Error::Pool(error) => error.into(),
            unrack_rpc::Error::Version { .. } => Failure::Lacking(error.to_string()),
            error => Failure::Failed(error.to_string()),
        }
    }
}
