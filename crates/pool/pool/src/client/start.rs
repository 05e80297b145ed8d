//! Start of a manager on demand.

use super::Client;
use super::error::Error;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time that a manager may take to start.
const STARTS: Duration = Duration::from_secs(5);

impl Client {
    /// Connects, and starts a manager if none serves at the socket. The command is `program pool serve --until-idle`,
    /// where the program is `unrack` or a path to it. The manager also serves other processes, outlives this process
    /// while others are connected, and ends when no process is connected. If several processes start a manager at the
    /// same time, one of these managers serves them all.
    ///
    /// # Errors
    /// As [`connect`](Client::connect); or if the program does not exist or does not start.
    pub fn connect_or_start(path: impl AsRef<Path>, program: impl AsRef<OsStr>) -> Result<Client, Error> {
        let path = path.as_ref();
        match Client::connect(path) {
            Err(Error::NoManager(_)) => {}
            connected => return connected,
        }
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.args(["pool", "serve", "--until-idle", "--socket"]).arg(path);
        // The manager gets a separate process group because a signal to this program's group is not meant for it.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let cannot = |error| Error::Start { program: program.to_string_lossy().into(), error };
        let mut child = command.spawn().map_err(cannot)?;
        // This process must reap the manager if the manager ends first.
        let _ = std::thread::Builder::new().name("unrack-start".into()).spawn(move || child.wait());
        let deadline = Instant::now() + STARTS;
        loop {
            match Client::connect(path) {
                Err(Error::NoManager(_)) if Instant::now() < deadline => {}
                connected => return connected,
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
