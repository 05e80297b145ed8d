//! The server's process: a pool and a server. It ends when its parent closes its standard input, or is gone.

use super::pin;
use crate::failure::Failure;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use unrack_pool::cache_control::Mode;
use unrack_pool::{Manager, Options};
use unrack_record::temporary::TemporaryFolder;
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
    let parent = std::env::temp_dir();
    let folder = TemporaryFolder::within(&parent).map_err(|error| {
        Failure::Failed(format!("cannot make a folder in {} (see TMPDIR): {error}", parent.display()))
    })?;
    let socket = folder.path("pool");
    let served = serve(&args, &socket)?;
    // If the parent is gone already, there is nothing to read either.
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(&[socket.as_os_str().as_bytes(), b"\0"].concat()).and_then(|()| stdout.flush());
    let _ = std::io::stdin().read(&mut [0]);
    drop(served);
    Ok(ExitCode::SUCCESS)
}

/// Starts the pool, and the service over it.
fn serve(args: &Args, socket: &Path) -> Result<(Serving, Manager), Failure> {
    let mut pool = Options::new(socket, args.capacity);
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

/// The server's process, as its parent sees it.
pub struct Peer {
    process: Child,
    /// Socket of the pool, in a folder that the process removes; if it is killed, the next sweep does.
    socket: PathBuf,
}

impl Peer {
    /// Starts the process, and returns when it takes calls.
    pub fn start(memory: Mode, waiting: Waiting, capacity: Bytes, core: usize) -> Result<Peer, Failure> {
        let failed = |error| Failure::Failed(format!("cannot start the server: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["rpc", "__serve", "--memory", &memory.to_string(), "--waiting", &waiting.to_string()]);
        command.args(["--capacity", &capacity.to_string(), "--core", &core.to_string()]);
        // In its own process group, it is not interrupted before it has cleaned up.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = command.spawn().map_err(failed)?;
        let mut peer = Peer { process, socket: PathBuf::new() };
        let mut socket = Vec::new();
        let said = peer.process.stdout.take().expect("it is piped");
        match BufReader::new(said).read_until(0, &mut socket) {
            Ok(_) if socket.pop() == Some(0) => {
                peer.socket = OsString::from_vec(socket).into();
                Ok(peer)
            }
            _ => Err(peer.failed()),
        }
    }

    /// Returns the socket of the pool.
    pub fn socket(&self) -> &Path {
        &self.socket
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
