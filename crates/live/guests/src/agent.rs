//! Agent in a guest: it runs programs that the rack's process asks for, and passes their input and output.

use crate::flow::StreamCredits;
use crate::wire::{Frame, GuestExit, MOST_BYTES, Program, Stream, VERSION, WINDOW, WireError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use unrack_live::Error;

/// Name of the port through which the rack's process reaches the agent.
pub const PORT: &str = "unrack";
const PORTS: &str = "/sys/class/virtio-ports";
/// Interval at which the agent checks whether the port is connected.
const ROUND: Duration = Duration::from_millis(20);

/// The port, and the programs that are running.
#[derive(Clone)]
struct AgentState {
    port: Arc<Mutex<File>>,
    running: Arc<Mutex<HashMap<u32, AgentProgram>>>,
}

/// Running program, as the reader of the port sees it.
struct AgentProgram {
    group: Pid,
    /// Queue of the program's standard input; `None` once the input has ended.
    input: Option<SyncSender<Vec<u8>>>,
    output: Arc<StreamCredits>,
    errors: Arc<StreamCredits>,
}

/// Serves the port of this guest until the rack's process closes the port.
///
/// # Errors
/// Fails if this is not a guest of a rack, or if the rack's process violates the protocol.
pub fn serve() -> Result<(), Error> {
    let path = find_port()?;
    let file = |why| Error::File { path: path.clone(), why };
    let mut reader = File::options().read(true).write(true).open(&path).map_err(file)?;
    let writer = reader.try_clone().map_err(file)?;
    let agent = AgentState { port: Arc::new(Mutex::new(writer)), running: Arc::default() };
    agent.send(&Frame::Hello { version: VERSION });
    let broken = |why: WireError| Error::Broken(format!("{}: {why}", path.display()));
    match first(&mut reader).map_err(broken)? {
        Frame::Hello { version: VERSION } => {}
        Frame::Hello { version } => return Err(broken(WireError::Version(version))),
        _ => return Err(broken(WireError::Malformed("the first frame is not a greeting"))),
    }
    while let Some(frame) = Frame::read(&mut reader).map_err(broken)? {
        agent.receive(frame).map_err(broken)?;
    }
    Ok(())
}

/// Finds the device of the port.
fn find_port() -> Result<PathBuf, Error> {
    let ports = std::fs::read_dir(PORTS).into_iter().flatten().flatten();
    let is_ours =
        |path: &PathBuf| std::fs::read_to_string(path.join("name")).is_ok_and(|name| name.trim() == PORT);
    let found = ports.map(|port| port.path()).find(is_ours);
    let device = found.and_then(|path| Some(Path::new("/dev").join(path.file_name()?)));
    device.ok_or_else(|| Error::Usage("this is not a guest of a rack: it has no port of an agent".into()))
}

/// Reads the first frame. It retries, because the port reports an end of stream until the rack's process is connected.
fn first(reader: &mut File) -> Result<Frame, WireError> {
    loop {
        match Frame::read(reader) {
            Ok(Some(frame)) => return Ok(frame),
            Ok(None) => std::thread::sleep(ROUND),
            Err(WireError::Io(why)) if why.kind() == ErrorKind::WouldBlock => std::thread::sleep(ROUND),
            Err(why) => return Err(why),
        }
    }
}

impl AgentState {
    /// Sends a frame. Errors are ignored, because the reader then finds the port closed as well.
    fn send(&self, frame: &Frame) {
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = frame.write(&mut *port);
    }

    fn running(&self) -> MutexGuard<'_, HashMap<u32, AgentProgram>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a frame. Frames for a program that has ended are late, and have no effect.
    fn receive(&self, frame: Frame) -> Result<(), WireError> {
        match frame {
            Frame::Start { program, it } => self.start(program, &it)?,
            Frame::Bytes { program, stream: Stream::Input, bytes } => {
                let mut running = self.running();
                let Some(one) = running.get_mut(&program) else { return Ok(()) };
                if bytes.is_empty() {
                    one.input = None;
                } else if let Some(input) = &one.input
                    && let Err(std::sync::mpsc::TrySendError::Full(_)) = input.try_send(bytes)
                {
                    return Err(WireError::Malformed("more frames of input than the window allows"));
                }
            }
            Frame::Took { program, stream } => {
                let running = self.running();
                let of = |one: &AgentProgram| match stream {
                    Stream::Output => Some(one.output.give()),
                    Stream::Errors => Some(one.errors.give()),
                    Stream::Input => None,
                };
                if running.get(&program).is_some_and(|one| of(one) != Some(true)) {
                    return Err(WireError::Malformed("it passes on what was not sent"));
                }
            }
            Frame::Signal { program, signal } => {
                self.kill(program, signal.into());
                self.send(&Frame::Signal { program, signal });
            }
            Frame::Leave { program } => {
                self.kill(program, libc::SIGKILL);
                if let Some(one) = self.running().get_mut(&program) {
                    one.input = None;
                    one.output.close();
                    one.errors.close();
                }
            }
            Frame::Hello { .. } | Frame::Bytes { .. } | Frame::Ended { .. } => {
                return Err(WireError::Malformed("it is of the other end"));
            }
        }
        Ok(())
    }

    /// Sends a signal to a program and to the processes in its group.
    fn kill(&self, program: u32, signal: i32) {
        let running = self.running();
        if let (Some(one), Some(signal)) = (running.get(&program), Signal::from_named_raw(signal)) {
            // Ignore errors, because the program may have ended and its thread may be waiting for the lock in order to remove it.
            let _ = kill_process_group(one.group, signal);
        }
    }

    fn start(&self, program: u32, it: &Program) -> Result<(), WireError> {
        let mut running = self.running();
        if running.contains_key(&program) {
            return Err(WireError::Malformed("the program runs already"));
        }
        let mut child = match command(it).spawn() {
            Ok(child) => child,
            Err(why) => {
                drop(running);
                self.send(&Frame::Ended { program, outcome: not_started(it, &why) });
                return Ok(());
            }
        };
        let (input, received) = sync_channel(WINDOW);
        let (output, errors) = (Arc::new(StreamCredits::default()), Arc::new(StreamCredits::default()));
        let group = Pid::from_child(&child);
        running.insert(
            program,
            AgentProgram { group, input: Some(input), output: output.clone(), errors: errors.clone() },
        );
        drop(running);
        let stdin = child.stdin.take();
        let agent = self.clone();
        std::thread::spawn(move || agent.feed(program, stdin, &received));
        let agent = self.clone();
        std::thread::spawn(move || agent.attend(program, child, [output, errors]));
        Ok(())
    }

    /// Passes input to a program until the input ends. Input that the program no longer reads is dropped.
    fn feed(&self, program: u32, mut stdin: Option<ChildStdin>, received: &Receiver<Vec<u8>>) {
        for bytes in received {
            if stdin.as_mut().is_some_and(|stdin| stdin.write_all(&bytes).is_err()) {
                stdin = None;
            }
            self.send(&Frame::Took { program, stream: Stream::Input });
        }
    }

    /// Passes the output of a program until the program has ended, and then reports its end.
    fn attend(&self, program: u32, mut child: Child, [output, errors]: [Arc<StreamCredits>; 2]) {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        // This pipe is closed when the program has ended. If it cannot be created, no output is passed, because no descriptors are free for
        // output either.
        let end = std::io::pipe().ok();
        std::thread::scope(|scope| {
            let (ended, ends) = end.unzip();
            let again = ended.as_ref().and_then(|ended| ended.try_clone().ok());
            scope.spawn(move || self.pass(program, Stream::Output, stdout, &output, ended));
            scope.spawn(move || self.pass(program, Stream::Errors, stderr, &errors, again));
            // Wait without reaping the process, so that its number is not reused while it is in the table.
            let _ =
                waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            drop(ends);
        });
        self.running().remove(&program);
        let outcome = match child.wait() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => GuestExit::Exited(code as u8),
                (None, signal) => GuestExit::Signalled(signal.unwrap_or(0) as u8),
            },
            Err(why) => GuestExit::NotStarted { status: 126, why: why.to_string() },
        };
        self.send(&Frame::Ended { program, outcome });
    }

    /// Passes a stream until it ends, or until it is empty after the program has ended. The second condition is necessary because processes
    /// that the program left behind may keep the stream open.
    fn pass(
        &self,
        program: u32,
        stream: Stream,
        from: Option<impl Read + AsFd>,
        credits: &StreamCredits,
        ended: Option<PipeReader>,
    ) {
        let (Some(mut from), Some(ended)) = (from, ended) else { return };
        let mut buffer = vec![0; MOST_BYTES];
        while is_readable(&from, &ended) && credits.take() {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    self.send(&Frame::Bytes { program, stream, bytes: buffer[..length].to_vec() });
                }
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }
}

/// Waits until `from` can be read. Returns `false` if there is nothing to read and the program has ended.
fn is_readable(from: &impl AsFd, ended: &PipeReader) -> bool {
    loop {
        let mut both = [PollFd::new(from, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        match poll(&mut both, None) {
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) if !both[0].revents().is_empty() => return true,
            Ok(_) => return false,
        }
    }
}

fn command(it: &Program) -> Command {
    let text = |bytes: &'_ Vec<u8>| OsStr::from_bytes(bytes).to_os_string();
    // The protocol guarantees that the list of words is not empty.
    let mut words = it.words.iter().map(text);
    let mut command = Command::new(words.next().unwrap_or_default());
    let folder = Path::new(OsStr::from_bytes(&it.folder));
    command
        .args(words)
        .env_clear()
        .envs(it.variables.iter().map(|(name, value)| (text(name), text(value))))
        .current_dir(if folder.is_dir() { folder } else { Path::new("/") })
        .process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn not_started(it: &Program, why: &std::io::Error) -> GuestExit {
    let name = it.words.first().map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
    let status = if why.kind() == ErrorKind::NotFound { 127 } else { 126 };
    GuestExit::NotStarted { status, why: format!("{name}: {why}") }
}
