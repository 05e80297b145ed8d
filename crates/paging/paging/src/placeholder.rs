//! The process that the user started (the placeholder), which becomes the program.
//!
//! Shells, pid files and supervisors identify a command by the process that they started, send signals to that process, and wait for it.
//! Therefore `unrack run` does not keep that process for itself: the process waits in a *placeholder* while a guard and its worker
//! ([`crate::guard`]) prepare the run, and then executes the program. The worker traces the program ([`crate::trace`]), and makes its end
//! visible to its parent only after the summary is written.
//!
//! ```text
//! placeholder ---------------------------- becomes the program ------------ ends, stays a zombie ---- is reaped
//!   |  (handed to init)                   ^                                 |                       ^
//!   +--> guard --> worker: footprint, ... +-- traces, watches ------------- +--> summary, JSON -----+
//! ```
//! The guard is not a child of the program, because the program may wait for all its children. If tracing is not permitted, the program
//! runs as a child of the worker, and the placeholder forwards signals and exits with the program's status.

use crate::bypass::BypassFilter;
use crate::family::MARK_VARIABLE;
use crate::guard::{self, ForkSide};
use crate::launch::Launch;
use crate::signals::{FOR_THE_PROGRAM, take_over};
use crate::trace::{self, AnyHandler, Forward, TraceAcceptor, TraceRequest, Tracer};
use crate::{PagingError, proc};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use rustix::process::Pid;
use std::cell::{Cell, OnceCell};
use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_void};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Process number of the guard, set in the placeholder; 0 if it is not known yet.
static GUARD: AtomicI32 = AtomicI32::new(0);

/// The worker's end of the connection to the placeholder.
pub struct Placeholder {
    /// Process number of the placeholder, which becomes the program.
    pid: u32,
    line: OwnedFd,
    acceptor: Cell<Option<TraceAcceptor>>,
    tracer: OnceCell<Tracer>,
    mark: String,
}

/// Makes this process a placeholder, which will become the program. Returns in the worker only. Returns `None` if this process is the first
/// of a container: all other processes of the container end with the first one, so the program gets a separate process.
///
/// Must be called first in `main`, instead of [`crate::stand_guard`], because the worker is a copy of the calling thread alone.
///
/// # Errors
/// If the machine has no room for more processes.
pub fn become_placeholder(command: &[OsString]) -> Result<Option<Placeholder>, PagingError> {
    if rustix::process::getpid().is_init() {
        return crate::stand_guard().map(|()| None);
    }
    let cannot = || PagingError::failed::<Errno>("connect the processes of this run");
    let (outside, inside) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(cannot())?;
    let (request, acceptor) = trace::request_pair()?;
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    match guard::fork()? {
        // After the intermediate process has ended, the guard becomes a child of init.
        ForkSide::Child => match guard::fork() {
            Ok(ForkSide::Child) => {
                drop((outside, request));
                prepare_run(pid, inside, acceptor).map(Some)
            }
            // SAFETY: ends this process, in which no cleanup is needed.
            Ok(ForkSide::Parent(_)) | Err(_) => unsafe { libc::_exit(0) },
        },
        ForkSide::Parent(between) => {
            drop((inside, acceptor));
            let _ = rustix::process::waitpid(Pid::from_raw(between), rustix::process::WaitOptions::empty());
            wait_in(outside, request, command)
        }
    }
}

/// Starts the guard, and the worker as its child. Returns in the worker only.
fn prepare_run(pid: u32, line: OwnedFd, acceptor: TraceAcceptor) -> Result<Placeholder, PagingError> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mark = format!("{own}-{}", proc::started(own as u32).unwrap_or_default());
    // Moves to a separate process group, so that the terminal's signals reach only the program and its seat.
    let _ = rustix::process::setpgid(None, None);
    tell(&line, MessageTag::Guard, &own.to_ne_bytes());
    let tells = line.try_clone().map_err(PagingError::failed("connect the processes of this run"))?;
    guard::stand_guard_over(Some(mark.clone()), move |status| {
        tell(&tells, MessageTag::End, &[status.code()])
    })?;
    Ok(Placeholder { pid, line, acceptor: Cell::new(Some(acceptor)), tracer: OnceCell::new(), mark })
}

/// Kinds of messages between these processes; the first byte of a message is the kind.
#[derive(Clone, Copy, PartialEq)]
enum MessageTag {
    /// From the guard: its process number.
    Guard,
    /// From the guard: the run has ended with this status.
    End,
    /// From the worker: the program's path and environment variables, with the descriptor of its standard input if it has one.
    Become,
    /// From the placeholder to the worker: tracing is not permitted, for this reason.
    Untraced,
    /// From the placeholder to the worker: the program cannot be executed, for this reason.
    Failed,
}

const WORDS: [MessageTag; 5] =
    [MessageTag::Guard, MessageTag::End, MessageTag::Become, MessageTag::Untraced, MessageTag::Failed];
/// Maximum bytes of a message, enough for two paths and a few variables.
const LONGEST: usize = 32 << 10;

fn tell(line: &OwnedFd, word: MessageTag, text: &[u8]) {
    // An error is ignored, because then the receiver has ended.
    let _ = rustix::net::send(line, &message(word, text), SendFlags::NOSIGNAL);
}

fn message(word: MessageTag, text: &[u8]) -> Vec<u8> {
    let byte = WORDS.iter().position(|known| *known == word).expect("it is in the list") as u8;
    [&[byte], text].concat()
}

/// A received message.
struct SeatMessage {
    word: MessageTag,
    text: Vec<u8>,
    file: Option<OwnedFd>,
}

/// Waits for the next message. Returns `None` if the other end is closed.
fn hear(line: &OwnedFd) -> Option<SeatMessage> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut text = vec![0u8; LONGEST];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    loop {
        let mut extra = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [std::io::IoSliceMut::new(&mut text)];
        let len = match recvmsg(line, &mut parts, &mut extra, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => message.bytes,
            Err(Errno::INTR) => continue,
            Err(_) => return None,
        };
        let file = extra.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let word = *WORDS.get(usize::from(*text[..len].first()?))?;
        return Some(SeatMessage { word, text: text[1..len].to_vec(), file });
    }
}

/// Waits in the placeholder until this process executes the program, or exits.
fn wait_in(line: OwnedFd, request: TraceRequest, command: &[OsString]) -> ! {
    for signal in FOR_THE_PROGRAM {
        take_over(signal, pass_on);
    }
    while let Some(heard) = hear(&line) {
        match heard.word {
            MessageTag::Guard => GUARD.store(number(&heard.text), Relaxed),
            MessageTag::End => std::process::exit(heard.text.first().copied().map_or(1, i32::from)),
            MessageTag::Become => match request.send() {
                Ok(()) => {
                    let why = become_program(&heard, command);
                    tell(&line, MessageTag::Failed, &why.to_ne_bytes());
                    // Exits by itself, otherwise the end of its tracer would kill it.
                    std::process::exit(1);
                }
                Err(why) => tell(&line, MessageTag::Untraced, &why.raw_os_error().unwrap_or(0).to_ne_bytes()),
            },
            MessageTag::Untraced | MessageTag::Failed => {}
        }
    }
    // Guard and worker were killed, which closed the connection.
    std::process::exit(128 + libc::SIGKILL)
}

fn number(text: &[u8]) -> i32 {
    text.try_into().map_or(0, i32::from_ne_bytes)
}

/// Forwards a signal to the guard, which forwards it to the worker. Signals from the terminal are not forwarded, because they reach the
/// worker anyway.
extern "C" fn pass_on(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer to handlers installed with SA_SIGINFO.
    let from_kernel = unsafe { (*info).si_code } == libc::SI_KERNEL;
    let guard = GUARD.load(Relaxed);
    if from_kernel || guard == 0 {
        return;
    }
    // SAFETY: kill(2) may be called in a signal handler; `errno` is restored.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::kill(guard, signal);
        *errno = before;
    }
}

/// Executes the program in this process. Returns only if that fails, with the error number.
fn become_program(heard: &SeatMessage, command: &[OsString]) -> i32 {
    let mut parts = heard.text.split(|byte| *byte == 0).map(|part| part.to_vec());
    let path = parts.next().unwrap_or_default();
    let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        variables.retain(|(known, _)| known.as_bytes() != name);
        variables.push((OsString::from_vec(name), OsString::from_vec(value)));
    }
    let filter = BypassFilter::for_program(variables.iter().map(|(name, _)| name.as_os_str()));
    let joined = |(name, value): &(OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
    let text = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
    let path = text(&path);
    let arguments: Vec<CString> = command.iter().map(|word| text(word.as_bytes())).collect();
    let variables: Vec<CString> = variables.iter().map(|variable| text(&joined(variable))).collect();
    if let Some(file) = &heard.file
        && let Err(why) = rustix::stdio::dup2_stdin(file)
    {
        return why.raw_os_error();
    }
    let list = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    if let Some(Err(why)) = filter.map(|filter| filter.set()) {
        return why.raw_os_error().unwrap_or(0);
    }
    // SAFETY: the lists and the texts are null-terminated, and live until the call. SIGPIPE is reset to its default because the Rust
    // runtime ignores it, and programs expect the default.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execve(path.as_ptr(), list(&arguments).as_ptr(), list(&variables).as_ptr());
    }
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

impl Placeholder {
    /// Returns the process number of the placeholder, which becomes the program.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the value of [`MARK_VARIABLE`] for this run.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Makes the placeholder execute the program. If there is a `handler`, it handles the program's ptrace stops. Returns the program's
    /// process number and its tracer, or `None` if tracing is not permitted.
    ///
    /// # Errors
    /// [`PagingError::Failed`] if the program cannot be executed.
    pub(crate) fn give_to(
        &self,
        launch: &Launch,
        handler: Option<AnyHandler>,
    ) -> Result<Option<(u32, &Tracer)>, PagingError> {
        // A program that contains LeakSanitizer is not traced, because LeakSanitizer ends the program if its first thread is traced.
        let may_be_traced = launch.may_be_traced && !launch.job.program.traces_itself;
        let Some(acceptor) = self.acceptor.take().filter(|_| may_be_traced) else {
            return Ok(None);
        };
        let tracer = Tracer::start(acceptor, handler.unwrap_or_else(|| Box::new(Forward)))?;
        let program = &launch.job.program.path;
        let input = launch.job.input.file().map_err(PagingError::failed("open the program's input again"))?;
        self.ask(program.as_os_str(), &launch.environment, input)?;
        match hear(&self.line) {
            // `execve` closes the connection, so the program runs.
            None => {}
            Some(SeatMessage { word: MessageTag::Untraced, .. }) => return Ok(None),
            Some(SeatMessage { text, .. }) => {
                let why = std::io::Error::from_raw_os_error(number(&text));
                return Err(PagingError::Failed(format!("cannot run {}: {why}", program.display())));
            }
        }
        self.leave_the_terminal();
        let _ = self.tracer.set(tracer);
        Ok(self.tracer.get().map(|tracer| (self.pid, tracer)))
    }

    /// Returns whether the process in the placeholder has ended.
    pub(crate) fn is_lost(&self) -> bool {
        use rustix::net::{RecvFlags, recv};
        // The placeholder sends no further messages before it ends, so end of file means that it has ended.
        matches!(recv(&self.line, &mut [0u8; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK), Ok((_, 0)))
    }

    fn ask(
        &self,
        path: &OsStr,
        environment: &[(&'static str, OsString)],
        input: Option<OwnedFd>,
    ) -> Result<(), PagingError> {
        use rustix::fd::AsFd;
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
        let mut text = path.as_bytes().to_vec();
        let mark = (MARK_VARIABLE, OsString::from(self.mark()));
        for (name, value) in environment.iter().chain([&mark]) {
            text.extend([b"\0", name.as_bytes(), b"\0", value.as_bytes()].concat());
        }
        let message = message(MessageTag::Become, &text);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut extra = SendAncillaryBuffer::new(&mut space);
        let files = [input.as_ref().map(AsFd::as_fd)];
        if let [Some(file)] = &files {
            extra.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(file)));
        }
        let parts = [std::io::IoSlice::new(&message)];
        sendmsg(&self.line, &parts, &mut extra, SendFlags::NOSIGNAL)
            .map_err(PagingError::failed("have the program started"))?;
        Ok(())
    }

    /// Moves this process out of the terminal's process group and closes its standard streams, so that only the program uses them.
    fn leave_the_terminal(&self) {
        let _ = rustix::process::setpgid(None, None);
        // SAFETY: installs no handler. SIGTTOU is ignored so that a summary can be written from the background.
        unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
        if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&null);
            let _ = rustix::stdio::dup2_stdout(&null);
        }
    }
}
