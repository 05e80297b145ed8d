//! The server's process, which runs a pool and a server. It ends when its parent closes the process's standard input,
//! or is gone.

use crate::Error;
use crate::cores::pin;
use crate::service::{SERVICE, read, write};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use unrack_pool::Manager;
use unrack_pool::cache_control::MemoryKind;
use unrack_record::temporary::TemporaryFolder;
use unrack_rpc::server::{Answered, Call, RunningService};
use unrack_rpc::{Server, WaitPolicy, server};
use unrack_units::{Bytes, Share};

/// Options of the server's process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    pub memory: MemoryKind,
    pub waiting: WaitPolicy,
    /// Size of the pool.
    pub capacity: Bytes,
    /// Core to which the process is pinned.
    pub core: usize,
}

/// Serves a pool and the benchmark's methods until the parent closes standard input or is gone. Writes the path of the
/// pool's socket and a zero byte to standard output.
///
/// # Errors
/// If the process cannot be pinned to its core, or if the pool or the server cannot start.
pub fn serve(options: &Options) -> Result<(), Error> {
    pin(options.core)?;
    let parent = std::env::temp_dir();
    let folder = TemporaryFolder::within(&parent).map_err(|why| Error::Folder { parent, why })?;
    let socket = folder.path("pool");
    let served = start(options, &socket)?;
    // The result does not matter: if the parent is already gone, reading standard input ends at once.
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(&[socket.as_os_str().as_bytes(), b"\0"].concat()).and_then(|()| stdout.flush());
    let _ = std::io::stdin().read(&mut [0]);
    drop(served);
    Ok(())
}

/// Starts the pool, and the service in it.
fn start(options: &Options, socket: &Path) -> Result<(RunningService, Manager), Error> {
    let mut pool = unrack_pool::Options::new(socket, options.capacity);
    pool.mode = options.memory;
    // The pool serves only this benchmark, so a client may use all of it.
    pool.per_client = Some(Share::Size(options.capacity));
    let manager = Manager::start(&pool)?;
    let serving = service(options.waiting).serve(manager.socket())?;
    Ok((serving, manager))
}

/// Serves the benchmark's methods in an existing pool, until the pool's manager is gone.
///
/// # Errors
/// If there is no pool, or if another process already serves the benchmark.
pub fn serve_at(socket: &Path, waiting: WaitPolicy) -> Result<(), Error> {
    service(waiting).serve(socket)?.wait();
    Ok(())
}

/// Makes the service that the benchmark calls.
fn service(waiting: WaitPolicy) -> Server {
    Server::new(SERVICE, server::Options { waiting, ..server::Options::default() })
        .method("touch", touch)
        .method("mirror", crate::check::mirror)
        .stream("parts", crate::check::parts)
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
}

fn touch(call: &mut Call<'_>) -> Answered {
    let sum = read(call.request());
    let length = call.request().len();
    write(call.answer(length)?, sum);
    Ok(())
}

/// The server's process, as its parent sees it.
pub struct ServerProcess {
    process: Child,
    /// Socket of the pool, in a folder that the process removes. If the process is killed, the next cleanup removes the
    /// folder.
    socket: PathBuf,
}

impl ServerProcess {
    /// Starts the process, and returns as soon as it accepts calls.
    ///
    /// # Errors
    /// [`Error::Start`] if the command cannot be executed; [`Error::Server`] if the process ended before it accepted
    /// calls.
    pub fn start(mut command: Command) -> Result<ServerProcess, Error> {
        // The process gets a separate process group, so that a signal from the terminal does not interrupt it before it
        // has cleaned up.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = command.spawn().map_err(Error::Start)?;
        let mut peer = ServerProcess { process, socket: PathBuf::new() };
        let mut socket = Vec::new();
        let said = peer.process.stdout.take().expect("it is piped");
        match BufReader::new(said).read_until(0, &mut socket) {
            Ok(_) if socket.pop() == Some(0) => {
                peer.socket = OsString::from_vec(socket).into();
                Ok(peer)
            }
            _ => Err(peer.ended()),
        }
    }

    /// Returns the socket of the pool.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the error of a process that ended instead of serving.
    fn ended(&mut self) -> Error {
        Error::Server { status: self.process.wait().ok().and_then(|status| status.code()) }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
