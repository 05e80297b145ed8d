//! A store in a separate process, which ends together with this process.

use super::options::Store;
use crate::ProgramError;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Interval between two attempts to connect to a starting store, and number of attempts.
const PAUSE: Duration = Duration::from_millis(20);
const LOOKS: u32 = 3000;

/// Number of stores that this process has started. It gives each store a separate folder.
static STARTED: AtomicU32 = AtomicU32::new(0);

pub(super) struct Server {
    pub store: Store,
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// Starts a store in a new folder, and waits until it listens.
    pub(super) fn start(store: Store) -> Result<Server, ProgramError> {
        let nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("unrack-ycsb-{}-{nth}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let words = words(store, &folder);
        let (program, package) = match store {
            Store::Redis => ("redis-server", "redis-server"),
            Store::Memcached => ("memcached", "memcached"),
        };
        if !is_installed(program) {
            std::fs::remove_dir_all(&folder)?;
            let why = io::Error::from(io::ErrorKind::NotFound);
            return Err(ProgramError::Lacking { program, package, why });
        }
        // `setpriv` makes the kernel kill the store when this process ends for any reason.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", program])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let child = child.map_err(|why| {
            let _ = std::fs::remove_dir_all(&folder);
            ProgramError::Lacking { program: "setpriv", package: "util-linux", why }
        })?;
        let mut server = Server { store, child, folder };
        server.wait()?;
        Ok(server)
    }

    /// Returns the path of the socket at which the store listens.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn wait(&mut self) -> Result<(), ProgramError> {
        for _ in 0..LOOKS {
            if UnixStream::connect(self.socket()).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(ProgramError::Answer(format!("nothing: it ended with {status}")));
            }
            std::thread::sleep(PAUSE);
        }
        Err(ProgramError::Gone(io::Error::from(io::ErrorKind::TimedOut)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // All data are in memory, so killing the store loses no files.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the arguments of the store. It listens only on a socket in `folder`, keeps all data in memory, and evicts no data.
fn words(store: Store, folder: &Path) -> Vec<String> {
    let socket = folder.join("socket").display().to_string();
    let words: Vec<&str> = match store {
        Store::Redis => {
            vec!["--port", "0", "--save", "", "--appendonly", "no", "--loglevel", "warning", "--unixsocket"]
        }
        // memcached refuses to run as root unless it is given a user.
        Store::Memcached => vec!["-u", "root", "-m", "65536", "-M", "-t", "1", "-s"],
    };
    words.into_iter().map(String::from).chain([socket]).collect()
}

/// Returns whether a program is in one of the folders of `PATH`.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
