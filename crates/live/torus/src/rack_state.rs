//! Client and server of a running rack without switches: through the rack's state folder, other processes make it carry flows, or end it.

use crate::emulation::Emulation;
use crate::report::LiveReport;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use unrack_live::{Error, RackFiles, RackFolder};
use unrack_units::Time;
use unrack_workload::{Kind, Message};

/// The folder of a rack that is running or was running.
#[derive(Debug)]
pub struct RackState(RackFolder);

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

static FILES: RackFiles = RackFiles {
    scenario: "direct.toml",
    socket: "direct.sock",
    log: "direct.log",
    others: None,
    patience: Duration::from_secs(10),
};
/// Interval at which a rack checks that its folder exists.
const LOOK_AFTER: Duration = Duration::from_secs(5);
const BROKEN: &str = "a run before this one broke the rack: take it down, and up again";
/// Maximum bytes of requests that are read from one connection: ten million flows.
const MOST_BYTES: u64 = 1 << 30;

impl RackState {
    /// Finds the rack without switches in this folder, whether it is running or not; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Usage`] if others may write to the folder.
    pub fn find(folder: &Path) -> Result<Option<RackState>, Error> {
        Ok(RackFolder::find(folder, &FILES)?.map(RackState))
    }

    /// Removes the files of a rack whose processes were killed. Returns whether a rack is up or being built in the folder.
    ///
    /// # Errors
    /// Fails if others may write to the folder, or a file cannot be removed.
    pub fn sweep(folder: &Path) -> Result<bool, Error> {
        RackFolder::sweep(folder, &FILES)
    }

    /// Claims the folder for the rack of this scenario; see [`RackFolder::claim`].
    ///
    /// # Errors
    /// [`Error::Usage`] if the folder has a rack already, or others may write to it.
    pub fn claim(folder: &Path, scenario: &str) -> Result<RackState, Error> {
        RackFolder::claim(folder, &FILES, scenario)?.map(RackState).ok_or_else(|| {
            let folder = folder.display();
            Error::Usage(format!("there is a rack in {folder} already: take it down first"))
        })
    }

    /// Returns the path of the scenario that the rack was built from.
    pub fn scenario(&self) -> PathBuf {
        self.0.scenario()
    }

    /// Returns the path of the log, which has the output of the rack's process.
    pub fn log(&self) -> PathBuf {
        self.0.log()
    }

    /// Serves a rack until a request ends it, or its folder is removed. Calls `ready` once requests are accepted.
    ///
    /// # Errors
    /// Fails if the socket cannot be created.
    pub fn serve(&self, emulation: Emulation, ready: impl FnOnce()) -> Result<(), Error> {
        let listener = self.0.listen()?;
        let (leave, left) = channel();
        let emulation = Arc::new(Mutex::new(emulation));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (emulation, leave) = (emulation.clone(), leave.clone());
                // Requests take turns, except that a request to leave is answered even during a run.
                std::thread::spawn(move || answer(&stream, &emulation, &leave));
            }
        });
        ready();
        // If a user removes the folder, no request can reach the rack any more, so the rack ends.
        while left.recv_timeout(LOOK_AFTER).is_err() && self.0.is_there() {}
        Ok(())
    }

    /// Returns the nodes of the rack's machine. Flows can start only at these nodes.
    ///
    /// # Errors
    /// [`Error::Broken`] if the rack does not answer.
    pub fn sources(&self) -> Result<Range<u32>, Error> {
        match self.ask(&Request::Sources)? {
            Some(Reply::Sources(own)) => Ok(own),
            _ => Err(self.0.is_gone("it does not know its nodes")),
        }
    }

    /// Makes the rack carry messages, each at its time after the start of the run.
    ///
    /// # Errors
    /// [`Error::Usage`] if the rack cannot carry such messages; [`Error::Broken`] if it does not answer.
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
            _ => Err(self.0.is_gone("it ended in the middle of the run")),
        }
    }

    /// Makes the rack leave, waits until its process has ended, and removes its files. Returns whether the rack was running. A process that
    /// does not leave in time is killed.
    ///
    /// # Errors
    /// Fails if files cannot be removed, or if the rack is being built.
    pub fn down(self) -> Result<bool, Error> {
        self.0.down(to_line(&Request::Leave))
    }

    /// Sends a request and returns the reply; `None` if the rack ended without a reply.
    fn ask(&self, request: &Request) -> Result<Option<Reply>, Error> {
        let (answer, _) = self.0.ask(to_line(request))?;
        match answer.is_empty() {
            true => Ok(None),
            false => serde_json::from_str(&answer)
                .map(Some)
                .map_err(|why| self.0.is_gone(&std::io::Error::from(why).to_string())),
        }
    }
}

fn to_line(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("words and numbers")
}

fn answer(stream: &UnixStream, emulation: &Mutex<Emulation>, leave: &Sender<()>) {
    let lines = BufReader::new(stream.take(MOST_BYTES)).lines();
    for line in lines.map_while(Result::ok) {
        let reply = match serde_json::from_str(&line) {
            Ok(Request::Leave) => {
                // Ignore errors, because the rack may be leaving already.
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
        let line = to_line(&reply) + "\n";
        let mut stream = stream;
        if stream.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}

fn carry(flows: &[Flow], emulation: &Mutex<Emulation>) -> Reply {
    // One day, in ps. The limit is needed because these times are added to the clock's time.
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
