//! State folder of a running rack: its scenario and a socket, by which other processes have it carry flows or leave.
//!
//! The protocol is JSON, a line each way: a [`Request`] and its [`Reply`]. Write access to the folder is permission to
//! send requests, so only its user has it.
//!
//! The scenario's file is locked as long as the rack is up or being built: by the process that builds it, and by the
//! rack's own process, which inherits the lock. A file whose lock is free was left by processes that were killed.

use crate::emulation::Emulation;
use crate::report::LiveReport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use unrack_live::{Error, folder};
use unrack_units::Time;
use unrack_workload::{Kind, Message};

/// The folder of a rack that is up, or was.
#[derive(Debug)]
pub struct Seat {
    folder: PathBuf,
    /// The locked scenario, in the process that builds the rack.
    _claim: Option<File>,
}

#[derive(Serialize, Deserialize)]
enum Request {
    /// Asks for the nodes of this machine.
    Sources,
    Run(Vec<Flow>),
    Leave,
}

#[derive(Serialize, Deserialize)]
enum Reply {
    Sources(Range<u32>),
    Report(Box<LiveReport>),
    Refused(String),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Flow {
    at_ps: u64,
    src: u32,
    dst: u32,
    bytes: u64,
}

const SCENARIO: &str = "direct.toml";
const SOCKET: &str = "direct.sock";
const LOG: &str = "direct.log";
/// Interval at which a rack verifies that its folder exists.
const LOOK_AFTER: Duration = Duration::from_secs(5);
/// Time that a rack has to leave after a request, before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(20);
const BROKEN: &str = "a run before this one broke the rack: take it down, and up again";
/// Most bytes of requests read from one connection: ten million flows.
const MOST_BYTES: u64 = 1 << 30;

impl Seat {
    /// Finds the rack without switches in this folder, running or not; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Usage`] if others may write to the folder.
    pub fn find(folder: &Path) -> Result<Option<Seat>, Error> {
        folder::check(folder)?;
        let seat = || Seat { folder: folder.to_path_buf(), _claim: None };
        Ok(folder.join(SCENARIO).exists().then(seat))
    }

    /// Removes what a rack whose processes were killed left in this folder. Returns whether a rack is up or being
    /// built.
    ///
    /// # Errors
    /// If others may write to the folder, or a file cannot be removed.
    pub fn sweep(folder: &Path) -> Result<bool, Error> {
        let Some(seat) = Seat::find(folder)? else { return Ok(false) };
        let Some(_claim) = seat.lock(&File::options())? else { return Ok(true) };
        seat.remove()?;
        Ok(false)
    }

    /// Claims the folder for the rack of this scenario, and removes what a rack whose processes were killed left there.
    /// If two processes try at once, one succeeds. Processes that this one starts inherit the claim.
    ///
    /// # Errors
    /// [`Error::Usage`] if the folder has a rack already, or others may write to it.
    pub fn claim(folder: &Path, scenario: &str) -> Result<Seat, Error> {
        folder::claim(folder)?;
        let mut seat = Seat { folder: folder.to_path_buf(), _claim: None };
        let path = seat.scenario();
        let mut options = File::options();
        let Some(mut made) = seat.lock(options.create(true))? else {
            let folder = folder.display();
            return Err(Error::Usage(format!("there is a rack in {folder} already: take it down first")));
        };
        seat.remove_all_but_scenario()?;
        made.set_len(0).and_then(|()| made.write_all(scenario.as_bytes())).map_err(file(&path))?;
        fcntl_setfd(&made, FdFlags::empty()).map_err(|why| file(&path)(why.into()))?;
        seat._claim = Some(made);
        Ok(seat)
    }

    /// Opens the scenario and locks it. `None` if its rack is up or being built.
    fn lock(&self, options: &std::fs::OpenOptions) -> Result<Option<File>, Error> {
        let path = self.scenario();
        let mut options = options.clone();
        options.read(true).write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
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

    /// Returns the path of the scenario that the rack was built from.
    pub fn scenario(&self) -> PathBuf {
        self.folder.join(SCENARIO)
    }

    /// Returns the path of the log, the output of the rack's process.
    pub fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// Serves a rack until a request tells it to leave, or its folder is removed. Calls `ready` once requests are
    /// accepted.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub fn serve(&self, emulation: Emulation, ready: impl FnOnce()) -> Result<(), Error> {
        let path = self.folder.join(SOCKET);
        let listener = UnixListener::bind(&path).map_err(file(&path))?;
        let (leave, left) = channel();
        let emulation = Arc::new(Mutex::new(emulation));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (emulation, leave) = (emulation.clone(), leave.clone());
                // Requests take turns; one to leave is answered during another's run.
                std::thread::spawn(move || answer(&stream, &emulation, &leave));
            }
        });
        ready();
        // If the folder is removed by hand, no request can reach the rack any more.
        while left.recv_timeout(LOOK_AFTER).is_err() && self.scenario().exists() {}
        Ok(())
    }

    /// Returns the nodes of the rack's machine: flows start at these only.
    ///
    /// # Errors
    /// [`Error::Broken`] if the rack does not answer.
    pub fn sources(&self) -> Result<Range<u32>, Error> {
        match self.ask(&Request::Sources)? {
            Some(Reply::Sources(own)) => Ok(own),
            _ => Err(self.is_gone("it does not know its nodes")),
        }
    }

    /// Has the rack carry messages, each at its time after the start of the run.
    ///
    /// # Errors
    /// [`Error::Usage`] if the rack does not carry such messages; [`Error::Broken`] if it does not answer.
    pub fn run(&self, messages: &[(Time, Message)]) -> Result<LiveReport, Error> {
        let other = |message: &Message| !matches!(message.kind, Kind::Flow | Kind::Write);
        if let Some((_, message)) = messages.iter().find(|(_, message)| other(message)) {
            let kind = message.kind.name();
            return Err(Error::Usage(format!(
                "workload: a live rack carries flows and writes, not a {kind}"
            )));
        }
        let flow = |(at, message): &(Time, Message)| {
            let Message { src, dst, bytes, .. } = *message;
            Flow { at_ps: at.as_ps(), src, dst, bytes }
        };
        let request = Request::Run(messages.iter().map(flow).collect());
        match self.ask(&request)? {
            Some(Reply::Report(report)) if report.outcomes.len() == messages.len() => Ok(*report),
            Some(Reply::Refused(why)) => Err(Error::Usage(why)),
            _ => Err(self.is_gone("it ended in the middle of the run")),
        }
    }

    /// Has the rack leave, waits until its process has ended, and removes its files. Returns whether it was running. A
    /// process that does not leave in time is killed.
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
        let Ok(stream) = UnixStream::connect(self.folder.join(SOCKET)) else { return false };
        // A process whose number belongs to another by now has closed the connection.
        let process = rustix::net::sockopt::socket_peercred(&stream)
            .and_then(|peer| pidfd_open(peer.pid, PidfdFlags::empty()));
        let line = serde_json::to_string(&Request::Leave).expect("a word") + "\n";
        let asked = (&stream).write_all(line.as_bytes()).is_ok();
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
        let begun = std::time::Instant::now();
        while self.scenario().exists() {
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

    /// Removes the files of a rack whose process has ended, and the folder.
    fn remove(&self) -> Result<(), Error> {
        self.remove_all_but_scenario()?;
        remove_file(&self.scenario())?;
        // This fails, as it should, if the user keeps other files there.
        let _ = std::fs::remove_dir(&self.folder);
        Ok(())
    }

    fn remove_all_but_scenario(&self) -> Result<(), Error> {
        [SOCKET, LOG].iter().try_for_each(|name| remove_file(&self.folder.join(name)))
    }

    /// Sends a request and returns the reply; `None` if the rack ended without one.
    fn ask(&self, request: &Request) -> Result<Option<Reply>, Error> {
        let path = self.folder.join(SOCKET);
        let gone = |why: std::io::Error| self.is_gone(&why.to_string());
        let mut stream = UnixStream::connect(&path).map_err(gone)?;
        let line = serde_json::to_string(request).expect("numbers") + "\n";
        stream.write_all(line.as_bytes()).map_err(gone)?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).map_err(gone)?;
        match answer.is_empty() {
            true => Ok(None),
            false => serde_json::from_str(&answer).map(Some).map_err(|why| gone(why.into())),
        }
    }

    fn is_gone(&self, why: &str) -> Error {
        let folder = self.folder.display();
        Error::Broken(format!("the rack in {folder} does not answer ({why}): take it down, and up again"))
    }
}

fn answer(stream: &UnixStream, emulation: &Mutex<Emulation>, leave: &Sender<()>) {
    let lines = BufReader::new(stream.take(MOST_BYTES)).lines();
    for line in lines.map_while(Result::ok) {
        let reply = match serde_json::from_str(&line) {
            Ok(Request::Leave) => {
                // The rack may be leaving already.
                let _ = leave.send(());
                return;
            }
            Ok(Request::Sources) => match emulation.lock() {
                Ok(emulation) => Reply::Sources(emulation.own()),
                Err(_) => Reply::Refused(BROKEN.into()),
            },
            Ok(Request::Run(flows)) => carry(&flows, emulation),
            Err(why) => Reply::Refused(format!("not a request: {why}")),
        };
        let line = serde_json::to_string(&reply).expect("numbers") + "\n";
        let mut stream = stream;
        if stream.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}

fn carry(flows: &[Flow], emulation: &Mutex<Emulation>) -> Reply {
    // One day, in ps: times are added to the clock's.
    const LATEST: u64 = 86_400_000_000_000_000;
    let message = |flow: &Flow| (Time::from_ps(flow.at_ps), Message::flow(flow.src, flow.dst, flow.bytes));
    let messages: Vec<_> = flows.iter().map(message).collect();
    if flows.iter().any(|flow| flow.at_ps > LATEST) {
        return Reply::Refused("workload: a live run is shorter than a day".into());
    }
    let Ok(mut emulation) = emulation.lock() else { return Reply::Refused(BROKEN.into()) };
    match emulation.run(&messages) {
        Ok(report) => Reply::Report(Box::new(report)),
        Err(why) => Reply::Refused(why.to_string()),
    }
}

/// Waits until a process has ended, if only for a time. Returns whether it has.
fn has_ended(process: &OwnedFd) -> bool {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
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
