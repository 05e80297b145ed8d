//! State folder of a running rack: its scenario and a socket, by which other processes have it carry flows or leave.
//!
//! The protocol is JSON, a line each way: a [`Request`] and its [`Reply`]. Write access to the folder is permission to
//! send requests, so only its user has it.

use super::emulation::Emulation;
use super::report::Report;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use unrack_units::Time;
use unrack_workload::{Kind, Message};

/// The folder of a rack that is up, or was.
#[derive(Debug)]
pub struct Seat(PathBuf);

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
    Report(Box<Report>),
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
const BROKEN: &str = "a run before this one broke the rack: take it down, and up again";
/// Most bytes of requests read from one connection: ten million flows.
const MOST_BYTES: u64 = 1 << 30;

impl Seat {
    /// Finds the rack without switches in this folder, running or not; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Usage`] if others may write to the folder.
    pub fn find(folder: &Path) -> Result<Option<Seat>, Error> {
        crate::folder::check(folder)?;
        Ok(folder.join(SCENARIO).exists().then(|| Seat(folder.to_path_buf())))
    }

    /// Claims the folder for the rack of this scenario. If two processes try at once, one succeeds.
    ///
    /// # Errors
    /// [`Error::Usage`] if the folder has a rack already, or others may write to it.
    pub fn claim(folder: &Path, scenario: &str) -> Result<Seat, Error> {
        crate::folder::claim(folder)?;
        let path = folder.join(SCENARIO);
        let mut made = std::fs::File::create_new(&path).map_err(|why| match why.kind() {
            ErrorKind::AlreadyExists => Error::Usage(format!(
                "there is a rack in {} already, or what is left of one: take it down first",
                folder.display()
            )),
            _ => file(&path)(why),
        })?;
        made.write_all(scenario.as_bytes()).map_err(file(&path))?;
        Ok(Seat(folder.to_path_buf()))
    }

    /// Returns the path of the scenario that the rack was built from.
    pub fn scenario(&self) -> PathBuf {
        self.0.join(SCENARIO)
    }

    /// Returns the path of the log, the output of the rack's process.
    pub fn log(&self) -> PathBuf {
        self.0.join(LOG)
    }

    /// Serves a rack until a request tells it to leave, or its folder is removed. Calls `ready` once requests are
    /// accepted.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub fn serve(&self, emulation: Emulation, ready: impl FnOnce()) -> Result<(), Error> {
        let path = self.0.join(SOCKET);
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
    pub fn run(&self, messages: &[(Time, Message)]) -> Result<Report, Error> {
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

    /// Has the rack leave, and removes its files. Returns whether it was running.
    ///
    /// # Errors
    /// If files cannot be removed.
    pub fn down(&self) -> Result<bool, Error> {
        let was_up = self.ask(&Request::Leave).is_ok();
        for name in [SOCKET, LOG, SCENARIO] {
            let path = self.0.join(name);
            match std::fs::remove_file(&path) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(file(&path)(why)),
                _ => {}
            }
        }
        // This fails, as it should, if the user keeps other files there.
        let _ = std::fs::remove_dir(&self.0);
        Ok(was_up)
    }

    /// Sends a request and returns the reply; `None` if the rack ended without one, as it does when it leaves.
    fn ask(&self, request: &Request) -> Result<Option<Reply>, Error> {
        let path = self.0.join(SOCKET);
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
        let folder = self.0.display();
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

fn file(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |why| Error::File { path: path.clone(), why }
}
