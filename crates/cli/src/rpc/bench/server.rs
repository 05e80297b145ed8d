//! The other process: a pool and a server. It ends when whoever started it closes its standard input, or is gone.

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
/// Reads the request and writes as long an answer.
pub const TOUCH: Method = Method::named("touch");
/// Answers with as many bytes, as they are.
pub const PASS: Method = Method::named("pass");
/// Nanoseconds of processor time that this process has used.
pub const PROCESSOR: Method = Method::named("processor");

#[derive(clap::Args)]
pub struct Args {
    /// A folder to be made for the pool; it goes with the server
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

pub fn main(args: Args) -> Result<ExitCode, Failure> {
    pin(args.core)?;
    let folder = args.folder.display();
    std::fs::create_dir(&args.folder)
        .map_err(|error| Failure::Failed(format!("cannot make {folder}: {error}")))?;
    let served = serve(&args);
    if served.is_ok() {
        // Whoever started us may be gone already; then there is nothing to read either.
        let _ = std::io::stdout().write_all(b"ready\n");
        let _ = std::io::stdin().read(&mut [0]);
    }
    let ended = served.map(drop);
    let _ = std::fs::remove_dir_all(&args.folder);
    ended.map(|()| ExitCode::SUCCESS)
}

/// The service, and the pool that it is served over.
fn serve(args: &Args) -> Result<(Serving, Manager), Failure> {
    let mut pool = Options::new(socket(&args.folder), args.capacity);
    pool.mode = args.memory;
    // There are no others who could want a part.
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

/// Reads every whole word.
#[inline]
pub fn read(message: View<'_>) -> u64 {
    let lines = message.len() / 64;
    let words = (lines * 8..message.len() / 8).map(|word| message.get::<u64>(word * 8).expect("inside"));
    let lines = (0..lines).map(|line| message.get::<[u64; 8]>(line * 64).expect("inside"));
    lines.flatten().chain(words).fold(0, u64::wrapping_add)
}

/// Writes every whole word.
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

/// The server's process, as who started it sees it.
pub struct Peer {
    process: Child,
    folder: PathBuf,
}

impl Peer {
    /// Calls can be made when this returns.
    pub fn start(memory: Mode, waiting: Waiting, capacity: Bytes, core: usize) -> Result<Peer, Failure> {
        let failed = |error| Failure::Failed(format!("cannot start the server: {error}"));
        let folder = std::env::temp_dir().join(format!("unrack-rpc-bench-{}", std::process::id()));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["rpc", "__serve"]).arg(&folder);
        command.args(["--memory", &memory.to_string(), "--waiting", &waiting.to_string()]);
        command.args(["--capacity", &capacity.to_string(), "--core", &core.to_string()]);
        // In a group of its own, it is not interrupted before it has cleared away.
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

    pub fn socket(&self) -> PathBuf {
        socket(&self.folder)
    }

    /// It ended instead of serving, and has said why on stderr.
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
        // It clears away itself, unless it was killed.
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
