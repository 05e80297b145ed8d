//! Runs that a child process, the command `unrack`, makes for a process that must not make them itself.
//!
//! A run takes over signals, the orphans of all descendants, and the processor time of all children, so it needs a separate process. The
//! command also has a guard, which ends all processes of a run when the command ends, however this process ends.

use super::maker::{Made, MeasuredCost, RunMaker, RunOrder};
use super::wire::{PreparedProgram, Reply, Request, left_s};
use crate::asking::QuestionCaller;
use crate::error::{Error, failed};
use crate::load::HostLoad;
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Hidden subcommand of `unrack` that makes runs; its standard output is a socket.
pub const RUNS_VERB: &str = "__runs";
/// Environment variable that makes the command end when the program that started it ends. Its value is the process number of that program.
/// A process that merely inherits the variable has a different parent, so it ignores the variable.
pub const PARENT_VARIABLE: &str = "UNRACK_PARENT";

/// Interval at which a waiting question checks whether it was canceled.
const LOOK: Duration = Duration::from_millis(50);
/// Time that the command has to end its run after it received SIGINT.
const GRACE: Duration = Duration::from_secs(10);

/// Command that makes the runs of a program.
pub(crate) struct RunsApart<'a> {
    asking: QuestionCaller<'a>,
    command: RefCell<RunningCommand>,
    program: PreparedProgram,
}

/// The running command, and this process's end of its socket.
struct RunningCommand {
    child: Child,
    stream: UnixStream,
}

impl<'a> RunsApart<'a> {
    /// Starts the command, which then prepares a program. The program reads the standard input of this process.
    ///
    /// # Errors
    /// If the command cannot be started, or the program cannot be found or run.
    pub(crate) fn start(
        path: &Path,
        program: &[OsString],
        asking: QuestionCaller<'a>,
    ) -> Result<RunsApart<'a>, Error> {
        let mut running = RunningCommand::start(path)?;
        match running.ask(&Request::prepare(program), asking)? {
            Reply::Prepared(program) => Ok(RunsApart { asking, command: RefCell::new(running), program }),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&self, request: &Request) -> Result<Reply, Error> {
        self.command.borrow_mut().ask(request, self.asking)
    }
}

impl RunMaker for RunsApart<'_> {
    fn words(&self) -> Vec<String> {
        self.program.words.clone()
    }

    fn identity(&self) -> Option<String> {
        self.program.identity.clone()
    }

    fn is_repeatable(&self) -> bool {
        self.program.is_repeatable
    }

    fn look(&self) -> Result<HostLoad, Error> {
        match self.ask(&Request::Look)? {
            Reply::Load(load) => Ok(load),
            other => Err(unexpected(&other)),
        }
    }

    fn measure_cost(&self, until: Option<Instant>) -> Result<Option<MeasuredCost>, Error> {
        match self.ask(&Request::MeasureCost { left_s: left_s(until) })? {
            Reply::Cost(cost) => Ok(cost),
            other => Err(unexpected(&other)),
        }
    }

    fn make(&self, order: &RunOrder, until: Option<Instant>) -> Result<Option<Made>, Error> {
        match self.ask(&Request::Make { order: order.clone(), left_s: left_s(until) })? {
            Reply::Made(made) => Ok(made),
            other => Err(unexpected(&other)),
        }
    }
}

fn unexpected(reply: &Reply) -> Error {
    let text = serde_json::to_string(reply).unwrap_or_default();
    failed(format!("the command that makes the runs answered another question: {text}"))
}

impl RunningCommand {
    fn start(path: &Path) -> Result<RunningCommand, Error> {
        let (stream, theirs) = UnixStream::pair().map_err(failed)?;
        stream.set_read_timeout(Some(LOOK)).map_err(failed)?;
        let mut command = Command::new(path);
        command.arg(RUNS_VERB).stdout(Stdio::from(OwnedFd::from(theirs)));
        command.env(PARENT_VARIABLE, std::process::id().to_string());
        // To the kernel, the parent of the command ends when the thread that started the command ends. That is no problem here, because
        // this thread waits for the answer.
        let child = command.spawn().map_err(|why| {
            let path = path.display();
            Error::Lacking(format!("cannot start {path}: {why}: set UNRACK to the path of the command"))
        })?;
        Ok(RunningCommand { child, stream })
    }

    /// Sends a request to the command, and waits for its reply. If the question is canceled, the current run is ended.
    fn ask(&mut self, request: &Request, asking: QuestionCaller) -> Result<Reply, Error> {
        let mut text = serde_json::to_vec(request).map_err(failed)?;
        text.push(b'\n');
        // If the command has ended, it sends no reply, which is noticed below.
        let _ = self.stream.write_all(&text);
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            if let Err(canceled) = asking.check() {
                self.end(Some(Signal::INT));
                return Err(canceled);
            }
            let mut part = [0; 4096];
            match self.stream.read(&mut part) {
                Ok(0) => return Err(gone(self.end(None))),
                Ok(count) => line.extend_from_slice(&part[..count]),
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(why) => return Err(failed(why)),
            }
        }
        match serde_json::from_slice(&line).map_err(failed)? {
            Reply::Failed(error) => Err(error),
            reply => Ok(reply),
        }
    }

    /// Ends the command with `signal` if it has not ended yet, and waits for its end.
    fn end(&mut self, signal: Option<Signal>) -> Option<ExitStatus> {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(status) = self.child.try_wait().ok().flatten() {
            return Some(status);
        }
        let child = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (Some(signal), Some(child)) = (signal, child) {
            let _ = kill_process(child, signal);
        }
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().ok().flatten() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.end(None);
    }
}

/// Returns the error for a command that ended without a reply. The command has written the reason to standard error.
fn gone(status: Option<ExitStatus>) -> Error {
    let status = status.map_or("an unknown status".into(), |status| status.to_string());
    failed(format!("the command that makes the runs ended too early, with {status}"))
}
