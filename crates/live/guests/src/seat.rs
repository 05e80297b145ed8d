//! State folder of a rack of virtual machines: its scenario, the socket of its process, and the output of its consoles.
//!
//! The scenario's file is locked as long as the rack is up or being built: by whoever builds it, by the rack's process,
//! and by every QEMU, which inherit the lock. A file whose lock is free was left by processes that were killed.

use crate::guest::CONSOLE;
use crate::request::{HostChange, RackStatus, Reply, Request};
use crate::scenario::GuestRack;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use unrack_live::{Error, folder};

/// The folder of a rack that is up, or was.
#[derive(Debug)]
pub struct GuestSeat {
    folder: PathBuf,
    /// The locked scenario, in the process that builds the rack.
    _claim: Option<File>,
}

const SCENARIO: &str = "guests.json";
const SOCKET: &str = "guests.sock";
const LOG: &str = "guests.log";
/// Time that a rack has to end after a request, before it is killed.
const PATIENCE: Duration = Duration::from_secs(20);
const ROUND: Duration = Duration::from_millis(20);

impl GuestSeat {
    /// Finds the rack of virtual machines in this folder, running or not; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Usage`] if others may write to the folder.
    pub fn find(folder: &Path) -> Result<Option<GuestSeat>, Error> {
        folder::check(folder)?;
        let seat = || GuestSeat { folder: folder.to_path_buf(), _claim: None };
        Ok(folder.join(SCENARIO).exists().then(seat))
    }

    /// Removes what a rack whose processes were killed left in this folder. Returns whether a rack is up or being
    /// built.
    ///
    /// # Errors
    /// If others may write to the folder, or a file cannot be removed.
    pub fn sweep(folder: &Path) -> Result<bool, Error> {
        let Some(seat) = GuestSeat::find(folder)? else { return Ok(false) };
        let Some(_claim) = seat.lock(&File::options())? else { return Ok(true) };
        seat.remove()?;
        Ok(false)
    }

    /// Claims the folder for a rack, and removes what one whose processes were killed left there. If two processes try
    /// at once, one succeeds. Processes that this one starts inherit the claim.
    ///
    /// # Errors
    /// [`Error::Usage`] if the folder has a rack already, or others may write to it.
    pub fn claim(folder: &Path, rack: &GuestRack) -> Result<GuestSeat, Error> {
        folder::claim(folder)?;
        let mut seat = GuestSeat { folder: folder.to_path_buf(), _claim: None };
        let path = seat.folder.join(SCENARIO);
        let Some(mut made) = seat.lock(File::options().create(true))? else {
            let folder = folder.display();
            return Err(Error::Usage(format!(
                "a rack is up in {folder} already: take it down first (`unrack rack down`), or give another --state"
            )));
        };
        seat.remove_all_but_scenario()?;
        let text = serde_json::to_string(rack).map_err(|why| Error::Broken(why.to_string()))?;
        made.set_len(0).and_then(|()| made.write_all(text.as_bytes())).map_err(file(&path))?;
        fcntl_setfd(&made, FdFlags::empty()).map_err(|why| file(&path)(why.into()))?;
        seat._claim = Some(made);
        Ok(seat)
    }

    /// Opens the scenario and locks it. `None` if its rack is up or being built.
    fn lock(&self, options: &std::fs::OpenOptions) -> Result<Option<File>, Error> {
        let path = self.folder.join(SCENARIO);
        let mut options = options.clone();
        options.read(true).write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        loop {
            let opened = options.open(&path).map_err(file(&path))?;
            match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(why) => return Err(file(&path)(why.into())),
            }
            // Another process may have removed it before it was locked.
            let is_there = |there: std::fs::Metadata| {
                opened.metadata().is_ok_and(|it| (it.dev(), it.ino()) == (there.dev(), there.ino()))
            };
            if std::fs::symlink_metadata(&path).is_ok_and(is_there) {
                return Ok(Some(opened));
            }
        }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of the log, the errors of the rack's process.
    pub fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// Returns the path of the socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// Returns whether the rack's folder is still there.
    pub(crate) fn is_there(&self) -> bool {
        self.folder.join(SCENARIO).exists()
    }

    /// Reads the scenario that the rack was built from.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, [`Error::Usage`] if it is not what `claim` wrote.
    pub(crate) fn scenario(&self) -> Result<GuestRack, Error> {
        let path = self.folder.join(SCENARIO);
        let text = std::fs::read_to_string(&path).map_err(file(&path))?;
        serde_json::from_str(&text).map_err(|why| {
            Error::Usage(format!("{} is not what `up` wrote ({why}): take the rack down", path.display()))
        })
    }

    /// Returns the state of all hosts.
    ///
    /// # Errors
    /// [`Error::Broken`] if the rack's process does not answer.
    pub fn status(&self) -> Result<RackStatus, Error> {
        match self.ask(&Request::List)?.1 {
            Reply::Hosts(status) => Ok(*status),
            other => Err(self.unexpected(other)),
        }
    }

    /// Kills, stops, continues or boots a host, and waits until that is done.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such host, or its state does not allow it; [`Error::Broken`] if it does not boot.
    pub fn change(&self, host: &str, change: HostChange) -> Result<(), Error> {
        match self.ask(&Request::Change { host: host.into(), change })?.1 {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    /// Opens the stream of a program to be run on a host.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such host, or it is not up.
    pub(crate) fn open(&self, host: &str) -> Result<BufReader<UnixStream>, Error> {
        match self.ask(&Request::Exec { host: host.into() })? {
            (stream, Reply::Done) => Ok(stream),
            (_, other) => Err(self.unexpected(other)),
        }
    }

    /// Ends the rack, waits until its processes have ended, and removes its files. Returns whether it was up. A process
    /// that does not end in time is killed.
    ///
    /// # Errors
    /// If files cannot be removed, or the rack is being built.
    pub fn down(mut self) -> Result<bool, Error> {
        let was_up = self.leave();
        if self._claim.is_none() {
            self._claim = self.wait_for_claim()?;
        }
        self.remove()?;
        Ok(was_up)
    }

    /// Has the rack's process end. Returns whether there was one.
    fn leave(&self) -> bool {
        let Ok(stream) = UnixStream::connect(self.socket()) else { return false };
        // A process whose number belongs to another by now has closed the connection.
        let process = rustix::net::sockopt::socket_peercred(&stream)
            .and_then(|peer| pidfd_open(peer.pid, PidfdFlags::empty()));
        let Ok(line) = serde_json::to_string(&Request::Leave) else { return false };
        let asked = (&stream).write_all((line + "\n").as_bytes()).is_ok();
        if let (true, Ok(process)) = (asked, &process)
            && !has_ended(process)
        {
            // It may be gone by now.
            let _ = pidfd_send_signal(process, Signal::KILL);
            has_ended(process);
        }
        asked
    }

    /// Waits until no process has the rack. `None` if another has removed it meanwhile.
    fn wait_for_claim(&self) -> Result<Option<File>, Error> {
        let begun = Instant::now();
        while self.is_there() {
            match self.lock(&File::options()) {
                Ok(None) if begun.elapsed() < PATIENCE => std::thread::sleep(ROUND),
                Ok(None) => {
                    let folder = self.folder.display();
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
    pub(crate) fn remove(&self) -> Result<(), Error> {
        self.remove_all_but_scenario()?;
        remove_file(&self.folder.join(SCENARIO))?;
        // This fails, as it should, if the user keeps other files there.
        let _ = std::fs::remove_dir(&self.folder);
        Ok(())
    }

    fn remove_all_but_scenario(&self) -> Result<(), Error> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let consoles =
            entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with(CONSOLE));
        consoles.chain([self.socket(), self.log()]).try_for_each(|path| remove_file(&path))
    }

    /// Sends a request, and returns the reply with the stream behind it.
    fn ask(&self, request: &Request) -> Result<(BufReader<UnixStream>, Reply), Error> {
        let gone = |why: std::io::Error| self.is_gone(&why.to_string());
        let mut stream = UnixStream::connect(self.socket()).map_err(gone)?;
        let line = serde_json::to_string(request).map_err(|why| gone(why.into()))? + "\n";
        stream.write_all(line.as_bytes()).map_err(gone)?;
        let mut stream = BufReader::new(stream);
        let mut answer = String::new();
        stream.read_line(&mut answer).map_err(gone)?;
        if answer.is_empty() {
            return Err(self.is_gone("it ended before it answered"));
        }
        let reply = serde_json::from_str(&answer).map_err(|why| gone(why.into()))?;
        Ok((stream, reply))
    }

    fn unexpected(&self, reply: Reply) -> Error {
        match reply {
            Reply::Refused(why) => Error::Usage(why),
            Reply::Failed(why) => Error::Broken(why),
            Reply::Done | Reply::Hosts(_) => self.is_gone("its reply is of another request"),
        }
    }

    fn is_gone(&self, why: &str) -> Error {
        let folder = self.folder.display();
        Error::Broken(format!("the rack in {folder} does not answer ({why}): take it down, and up again"))
    }
}

/// Waits until a process has ended, if only for a time. Returns whether it has.
fn has_ended(process: &OwnedFd) -> bool {
    let end = Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
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

fn file(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |why| Error::File { path: path.clone(), why }
}
