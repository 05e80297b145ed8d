//! State folder of a rack that runs in a process. It contains the rack's scenario, the socket of that process, its log, and other files.
//!
//! The scenario's file is locked while the rack is up or being built: by the process that builds it, and then by the processes of the rack,
//! which inherit the lock. If the lock of a file is free, the processes that created the file were killed.
//!
//! The protocol on the socket is JSON, with one line for a request and one line for its reply. Write access to the folder is permission to
//! send requests, so only its user has write access.

use crate::{Error, folder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names of the files of one kind of rack, and how long such a rack may take to end.
#[derive(Debug)]
pub struct RackFiles {
    pub scenario: &'static str,
    pub socket: &'static str,
    pub log: &'static str,
    /// Suffix of the names of further files, which are removed with the rack.
    pub others: Option<&'static str>,
    /// Time within which a rack has to end after a request. Afterwards it is killed.
    pub patience: Duration,
}

/// Folder of a rack that is running or was running.
#[derive(Debug)]
pub struct RackFolder {
    path: PathBuf,
    files: &'static RackFiles,
    /// The locked scenario, in the process that builds the rack.
    _claim: Option<File>,
}

/// Pause between two attempts to lock a scenario.
const ROUND: Duration = Duration::from_millis(20);

impl RackFolder {
    /// Finds the rack of this kind in a folder, whether it is running or not; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Usage`] if others may write to the folder.
    pub fn find(path: &Path, files: &'static RackFiles) -> Result<Option<RackFolder>, Error> {
        folder::check(path)?;
        let found = RackFolder { path: path.to_path_buf(), files, _claim: None };
        Ok(found.is_there().then_some(found))
    }

    /// Removes the files of a rack whose processes were killed. Returns whether a rack is up or being built in the folder.
    ///
    /// # Errors
    /// Fails if others may write to the folder, or a file cannot be removed.
    pub fn sweep(path: &Path, files: &'static RackFiles) -> Result<bool, Error> {
        let Some(found) = RackFolder::find(path, files)? else { return Ok(false) };
        let Some(_claim) = found.lock(&File::options())? else { return Ok(true) };
        found.remove()?;
        Ok(false)
    }

    /// Claims a folder for a rack with this scenario, and removes the files of a rack whose processes were killed. Returns `None` if the
    /// folder has a rack already. If two processes try at once, one of them succeeds. Processes that this process starts inherit the claim.
    ///
    /// # Errors
    /// [`Error::Usage`] if others may write to the folder; [`Error::File`] if a file cannot be written.
    pub fn claim(
        path: &Path,
        files: &'static RackFiles,
        scenario: &str,
    ) -> Result<Option<RackFolder>, Error> {
        folder::claim(path)?;
        let mut claimed = RackFolder { path: path.to_path_buf(), files, _claim: None };
        let Some(mut made) = claimed.lock(File::options().create(true))? else { return Ok(None) };
        claimed.remove_all_but_scenario()?;
        let file = file(&claimed.scenario());
        made.set_len(0).and_then(|()| made.write_all(scenario.as_bytes())).map_err(&file)?;
        fcntl_setfd(&made, FdFlags::empty()).map_err(|why| file(why.into()))?;
        claimed._claim = Some(made);
        Ok(Some(claimed))
    }

    /// Opens the scenario and locks it. Returns `None` if its rack is up or being built.
    fn lock(&self, options: &OpenOptions) -> Result<Option<File>, Error> {
        let path = self.scenario();
        let mut options = options.clone();
        options.read(true).write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        loop {
            let opened = options.open(&path).map_err(file(&path))?;
            match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(why) => return Err(file(&path)(why.into())),
            }
            // Check the path again, because another process may have removed the file before it was locked.
            let is_there = |there: std::fs::Metadata| {
                opened.metadata().is_ok_and(|it| (it.dev(), it.ino()) == (there.dev(), there.ino()))
            };
            if std::fs::symlink_metadata(&path).is_ok_and(is_there) {
                return Ok(Some(opened));
            }
        }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the scenario that the rack was built from.
    pub fn scenario(&self) -> PathBuf {
        self.path.join(self.files.scenario)
    }

    /// Returns the path of the log, which has the output of the rack's process.
    pub fn log(&self) -> PathBuf {
        self.path.join(self.files.log)
    }

    /// Returns whether the rack's files still exist.
    pub fn is_there(&self) -> bool {
        self.scenario().exists()
    }

    fn socket(&self) -> PathBuf {
        self.path.join(self.files.socket)
    }

    /// Creates the socket, in the rack's process.
    ///
    /// # Errors
    /// Fails if the socket cannot be created.
    pub fn listen(&self) -> Result<UnixListener, Error> {
        let path = self.socket();
        UnixListener::bind(&path).map_err(file(&path))
    }

    /// Sends a request, which is one line without its newline. Returns the line of the reply, and the stream for further data after it. The
    /// line is empty if the rack ended without a reply.
    ///
    /// # Errors
    /// [`Error::Broken`] if the rack's process does not answer.
    pub fn ask(&self, request: String) -> Result<(String, BufReader<UnixStream>), Error> {
        let gone = |why: std::io::Error| self.is_gone(&why.to_string());
        let mut stream = UnixStream::connect(self.socket()).map_err(gone)?;
        stream.write_all((request + "\n").as_bytes()).map_err(gone)?;
        let mut stream = BufReader::new(stream);
        let mut reply = String::new();
        stream.read_line(&mut reply).map_err(gone)?;
        Ok((reply, stream))
    }

    /// Returns the error for a rack whose process does not answer correctly; `why` is the reason.
    pub fn is_gone(&self, why: &str) -> Error {
        let folder = self.path.display();
        Error::Broken(format!("the rack in {folder} does not answer ({why}): take it down, and up again"))
    }

    /// Ends the rack by this request, waits until its processes have ended, and removes its files. Returns whether the rack was running. A
    /// process that does not end in time is killed.
    ///
    /// # Errors
    /// Fails if files cannot be removed, or if the rack is being built.
    pub fn down(mut self, request: String) -> Result<bool, Error> {
        let was_up = self.end(request);
        if self._claim.is_none() {
            self._claim = self.wait_for_claim()?;
        }
        self.remove()?;
        Ok(was_up)
    }

    /// Makes the rack's process end. Returns whether there was one.
    fn end(&self, request: String) -> bool {
        let Ok(stream) = UnixStream::connect(self.socket()) else { return false };
        // The number may belong to another process by now, but then the rack's process has closed the connection, so the write below fails.
        let process = rustix::net::sockopt::socket_peercred(&stream)
            .and_then(|peer| pidfd_open(peer.pid, PidfdFlags::empty()));
        let was_asked = (&stream).write_all((request + "\n").as_bytes()).is_ok();
        if let (true, Ok(process)) = (was_asked, &process)
            && !has_ended(process, self.files.patience)
        {
            // Ignore errors, because the process may have ended by now.
            let _ = pidfd_send_signal(process, Signal::KILL);
            has_ended(process, self.files.patience);
        }
        was_asked
    }

    /// Waits until no process uses the rack, and locks its scenario. Returns `None` if another process has removed it meanwhile.
    fn wait_for_claim(&self) -> Result<Option<File>, Error> {
        let begun = Instant::now();
        while self.is_there() {
            match self.lock(&File::options()) {
                Ok(None) if begun.elapsed() < self.files.patience => std::thread::sleep(ROUND),
                Ok(None) => {
                    let folder = self.path.display();
                    return Err(Error::Usage(format!(
                        "a rack is being built in {folder}: wait for `rack up`, or end it"
                    )));
                }
                Err(Error::File { why, .. }) if why.kind() == ErrorKind::NotFound => {}
                locked => return locked,
            }
        }
        Ok(None)
    }

    /// Removes the files of a rack whose processes have ended, and the folder.
    ///
    /// # Errors
    /// Fails if a file cannot be removed.
    pub fn remove(&self) -> Result<(), Error> {
        self.remove_all_but_scenario()?;
        remove_file(&self.scenario())?;
        // Ignore errors, because removing the folder should fail if the user keeps other files there.
        let _ = std::fs::remove_dir(&self.path);
        Ok(())
    }

    fn remove_all_but_scenario(&self) -> Result<(), Error> {
        if let Some(end) = self.files.others {
            let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
            let others =
                entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with(end));
            others.into_iter().try_for_each(|path| remove_file(&path))?;
        }
        [self.socket(), self.log()].iter().try_for_each(|path| remove_file(path))
    }
}

/// Waits until a process has ended, at most for `patience`. Returns whether it has ended.
fn has_ended(process: &OwnedFd, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}

fn remove_file(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(why) if why.kind() != ErrorKind::NotFound => Err(file(path)(why)),
        _ => Ok(()),
    }
}

fn file(path: &Path) -> impl Fn(std::io::Error) -> Error + use<> {
    let path = path.to_path_buf();
    move |why| Error::File { path: path.clone(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    static FILES: RackFiles = RackFiles {
        scenario: "rack.json",
        socket: "rack.sock",
        log: "rack.log",
        others: Some(".console"),
        patience: Duration::from_millis(200),
    };

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("unrack-rack-folder-{name}-{}", std::process::id()))
    }

    #[test]
    fn one_claim_at_a_time_which_down_gives_up() {
        let path = folder("claim");
        let claimed = RackFolder::claim(&path, &FILES, "{}").unwrap().expect("nobody else is here");
        assert!(RackFolder::claim(&path, &FILES, "").unwrap().is_none(), "it is claimed");
        assert!(RackFolder::sweep(&path, &FILES).unwrap(), "it is being built");
        std::fs::write(path.join("one.console"), "text").unwrap();
        assert!(!claimed.down("leave".into()).unwrap(), "no process was there");
        assert!(!path.exists());
    }

    #[test]
    fn what_killed_processes_left_is_swept() {
        let path = folder("sweep");
        drop(RackFolder::claim(&path, &FILES, "{}").unwrap());
        let found = RackFolder::find(&path, &FILES).unwrap().expect("its scenario is there");
        assert!(matches!(found.ask("anything".into()), Err(Error::Broken(_))), "nobody listens");
        assert!(!RackFolder::sweep(&path, &FILES).unwrap());
        assert!(RackFolder::find(&path, &FILES).unwrap().is_none());
    }
}
