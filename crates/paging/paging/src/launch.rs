//! Starts a program, watches it and all processes that it starts, and ends them.

use crate::bypass::BypassFilter;
use crate::elf::PagerEntry;
use crate::ending::EndingState;
use crate::family::{self, ProcessFamily};
use crate::job::{CheckedProgram, OutputTarget};
use crate::placeholder::Placeholder;
use crate::program_end::ProgramEnd;
use crate::signals::{EndRequests, SignalGuard};
use crate::trace::{self, AnyHandler, Tracer};
use crate::{PagingError, guard, proc};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time that processes have to end by themselves after their program has ended (`GRACE`), and after they were asked to end (`LAST_GRACE`).
pub(crate) const GRACE: Duration = Duration::from_millis(500);
const LAST_GRACE: Duration = Duration::from_secs(2);
/// Time that a program which must be stopped has to exit with a status that names the cause. After it, the program is killed.
const STATUS_GRACE: Duration = Duration::from_millis(300);
const LONGEST_PACE: Duration = Duration::from_millis(200);
/// The observer may take one part in this number of a core's time.
const OBSERVER_SHARE: u32 = 40;
/// A run is inspected again at the latest after one part in this number of its age. Otherwise one inspection that took long because the
/// machine was busy could hide the whole of a short run.
const AGE_SHARE: u32 = 8;

/// Limits this process to one run at a time, because signals and orphans are delivered to the process, not to a run.
static ONE_RUN: Mutex<()> = Mutex::new(());

/// Observer that inspects a run periodically.
pub(crate) trait RunObserver {
    /// Returns the interval between inspections, if an inspection is cheap.
    fn pace(&self) -> Duration;
    /// Inspects the run. `members` are all its processes, ended or not.
    ///
    /// # Errors
    /// If the run must not continue.
    fn look(&mut self, members: &[u32]) -> Result<(), PagingError>;
    /// Returns whether the program waits for an event that may never come, so that it cannot handle signals.
    fn is_stuck(&self) -> bool {
        false
    }
}

/// How a run ended, and how long it took.
pub(crate) struct RunOutcome {
    pub status: ProgramEnd,
    pub wall: Duration,
    /// Names of programs that still ran after the command had ended, and that were therefore ended.
    pub left_behind: Vec<String>,
}

/// A program to start.
pub(crate) struct Launch<'a> {
    pub job: &'a CheckedProgram,
    pub environment: Vec<(&'static str, OsString)>,
    pub output: &'a OutputTarget,
    /// Time at which the program is ended if it still runs.
    pub until: Option<Instant>,
    /// Process that becomes the program; `None` if a child of this process becomes it.
    pub placeholder: Option<&'a Placeholder>,
    /// If false, the program is started as a child of this process even if there is a placeholder.
    pub may_be_traced: bool,
    /// Time that processes may continue after their program has ended.
    pub grace: Duration,
    /// Handler of the program's ptrace stops, if the program is traced.
    pub handler: Option<AnyHandler>,
}

impl Launch<'_> {
    /// Runs the program to its end.
    ///
    /// # Errors
    /// Also fails if a signal asked this process to stop, unless the output is [`OutputTarget::Inherited`]: the signal ends a series of
    /// runs, whereas a single run ends as its program does, if the program ends in time. [`PagingError::OutOfTime`] if the run was ended at
    /// [`Launch::until`].
    pub(crate) fn run(mut self, observer: &mut dyn RunObserver) -> Result<RunOutcome, PagingError> {
        let _guard: MutexGuard<()> = ONE_RUN.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = SignalGuard::start()?;
        let family = ProcessFamily::claim()?;
        let started = Instant::now();
        let until = self.until;
        let handler = self.handler.take();
        let must_be_traced = self.job.program.entrance == PagerEntry::Agent && handler.is_some();
        let (family, program) = match self.placeholder {
            Some(placeholder) => match placeholder.give_to(&self, handler)? {
                Some((pid, tracer)) => {
                    let family = family.with_mark(Some(placeholder.mark().into())).with_program(pid);
                    (family, LaunchedProcess::InItsSeat(pid, tracer))
                }
                None if must_be_traced => return Err(self.cannot_run()(Errno::PERM.into())),
                None => (family, self.spawn(None)?),
            },
            None => (family, self.spawn(handler.filter(|_| must_be_traced))?),
        };
        let (placeholder, grace) = (self.placeholder, self.grace);
        let run = ProgramRun { watch: &watch, family: &family, program, placeholder, started, until, grace };
        let outcome = run.to_the_end(observer);
        if let (Err(why), LaunchedProcess::InItsSeat(_, tracer)) = (&outcome, &run.program) {
            run.end_with(tracer, why.status());
        }
        let left_behind = run.end_the_rest(observer, outcome.is_ok());
        let (status, wall) = outcome?;
        // Inspects once more, so that the last events are not missed.
        observer.look(&[])?;
        match watch.stopped_by() {
            Some(signal) if *self.output != OutputTarget::Inherited => Err(PagingError::Interrupted(signal)),
            _ => Ok(RunOutcome { status, wall, left_behind }),
        }
    }

    /// Starts the program as a child of this process, traced if `handler` is given.
    fn spawn(&self, handler: Option<AnyHandler>) -> Result<LaunchedProcess<'static>, PagingError> {
        let mut command = self.command().map_err(self.cannot_run())?;
        let tracer = handler.map(|handler| Self::trace(handler, &mut command.command)).transpose()?;
        let child = command.spawn().map_err(self.cannot_run())?;
        drop(command);
        child.drain.into_iter().for_each(Drain::begin);
        Ok(LaunchedProcess::AsOurChild(child.id, tracer))
    }

    /// Arranges that the program is traced from its first instruction.
    fn trace(handler: AnyHandler, command: &mut Command) -> Result<Tracer, PagingError> {
        use std::os::unix::process::CommandExt;
        let (request, acceptor) = trace::request_pair()?;
        let tracer = Tracer::start(acceptor, handler)?;
        // SAFETY: the child makes only a few system calls, on its own memory.
        unsafe { command.pre_exec(move || request.send()) };
        Ok(tracer)
    }

    fn cannot_run(&self) -> impl Fn(io::Error) -> PagingError {
        let path = self.job.program.path.display().to_string();
        move |why| match why.raw_os_error() {
            Some(libc::EPERM) => PagingError::Lacking(format!(
                "{path} cannot be traced, which a program needs into which nothing can be preloaded: allow ptrace(2) here \
                 (in a container, its seccomp profile and CAP_SYS_PTRACE; elsewhere, as root, `sysctl \
                 kernel.yama.ptrace_scope=1`), or use a dynamically linked build for the GNU C library"
            )),
            _ => PagingError::Failed(format!("cannot run {path}: {why}")),
        }
    }

    fn command(&self) -> io::Result<PreparedRun> {
        use std::os::unix::process::CommandExt;
        let [name, arguments @ ..] = &self.job.program.command[..] else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut command = Command::new(&self.job.program.path);
        command.arg0(name).args(arguments).stdin(self.job.input.stdio()?);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let mut drain = None;
        match self.output {
            OutputTarget::Inherited => {}
            OutputTarget::Discarded => {
                let (reader, writer) = io::pipe()?;
                command.stdout(writer.try_clone()?).stderr(writer);
                drain = Some(Drain { reader, file: None });
            }
            OutputTarget::Piped(path) => {
                let (reader, writer) = io::pipe()?;
                command.stdout(writer.try_clone()?).stderr(writer);
                drain = Some(Drain { reader, file: Some(File::create(path)?) });
            }
            OutputTarget::File(path) => {
                let file = File::create(path)?;
                command.stdout(Stdio::from(file.try_clone()?)).stderr(file);
            }
        }
        let parent = rustix::process::getpid();
        let filter = BypassFilter::for_program(self.environment.iter().map(|(name, _)| (*name).as_ref()));
        // SAFETY: the child makes only a few system calls, and allocates nothing.
        unsafe {
            command.pre_exec(move || {
                die_with(parent)?;
                filter.as_ref().map_or(Ok(()), BypassFilter::set)
            })
        };
        Ok(PreparedRun { command, drain })
    }
}

/// Asks the kernel to kill this process when its parent ends. This covers neither processes that this process starts nor a program that
/// gains rights; those are ended by the guard and by their pagers.
fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    match rustix::process::getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::ErrorKind::Interrupted.into()),
    }
}

struct PreparedRun {
    command: Command,
    drain: Option<Drain>,
}

struct StartedRun {
    id: u32,
    drain: Option<Drain>,
}

impl PreparedRun {
    fn spawn(&mut self) -> io::Result<StartedRun> {
        // Not waited for through `Child`, because this process reaps the program itself, like its orphans.
        let id = self.command.spawn()?.id();
        Ok(StartedRun { id, drain: self.drain.take() })
    }
}

/// Reader of a program's output.
struct Drain {
    reader: io::PipeReader,
    /// File into which the output is copied; `None` if it is discarded.
    file: Option<File>,
}

impl Drain {
    /// Reads to the end of the pipe in a background thread, because a process that holds the other end may outlive this one.
    fn begin(mut self) {
        std::thread::spawn(move || {
            // A read error means that there is no more output. After a write error the rest is still read and discarded, so that the
            // program is not blocked.
            if let Some(mut file) = self.file.take() {
                let _ = io::copy(&mut self.reader, &mut file);
            }
            let _ = io::copy(&mut self.reader, &mut io::sink());
        });
    }
}

/// The process of a running program.
enum LaunchedProcess<'a> {
    /// A child of this process, with its tracer if it is traced. The tracer lives as long as this value.
    AsOurChild(u32, #[expect(dead_code, reason = "dropped with the run")] Option<Tracer>),
    /// A placeholder process. Its parent gets the exit status only when the placeholder is dropped.
    InItsSeat(u32, &'a Tracer),
}

impl LaunchedProcess<'_> {
    fn pid(&self) -> u32 {
        match self {
            LaunchedProcess::AsOurChild(pid, _) | LaunchedProcess::InItsSeat(pid, _) => *pid,
        }
    }

    fn ended(&self) -> Option<ProgramEnd> {
        match self {
            LaunchedProcess::AsOurChild(pid, _) => family::ended(*pid),
            LaunchedProcess::InItsSeat(_, tracer) => tracer.ended(),
        }
    }
}

struct ProgramRun<'a> {
    watch: &'a SignalGuard,
    family: &'a ProcessFamily,
    program: LaunchedProcess<'a>,
    placeholder: Option<&'a Placeholder>,
    started: Instant,
    until: Option<Instant>,
    grace: Duration,
}

impl ProgramRun<'_> {
    fn to_the_end(&self, observer: &mut dyn RunObserver) -> Result<(ProgramEnd, Duration), PagingError> {
        let (mut next_look, mut ending) = (Instant::now(), EndingState::default());
        loop {
            if let Some(status) = self.program.ended() {
                return Ok((status, self.started.elapsed()));
            }
            if guard::is_lost() || self.is_placeholder_lost() {
                return Err(PagingError::Interrupted(libc::SIGTERM));
            }
            self.forward_signals();
            let now = Instant::now();
            if self.until.is_some_and(|until| now >= until) {
                return Err(PagingError::OutOfTime);
            }
            if let Some(signal) = ending.due(self.asked_to_end(observer), now) {
                return Err(PagingError::Interrupted(signal));
            }
            if now >= next_look {
                self.family.bury_orphans(self.program.pid());
                observer.look(&self.family.members())?;
                let longest = LONGEST_PACE.min(self.started.elapsed() / AGE_SHARE).max(observer.pace());
                next_look = Instant::now() + (now.elapsed() * OBSERVER_SHARE).clamp(observer.pace(), longest);
            }
            self.watch.wait(next_look.saturating_duration_since(Instant::now()));
        }
    }

    /// Returns whether the placeholder's process, which the user started, was killed although the program runs outside it.
    fn is_placeholder_lost(&self) -> bool {
        matches!(self.program, LaunchedProcess::AsOurChild(..))
            && self.placeholder.is_some_and(Placeholder::is_lost)
    }

    /// Returns the signals that asked for the end of the run. A program in its placeholder handles its signals itself, unless it is stuck.
    fn asked_to_end(&self, observer: &dyn RunObserver) -> EndRequests {
        match &self.program {
            LaunchedProcess::AsOurChild(..) => self.watch.asked_to_end(),
            LaunchedProcess::InItsSeat(_, tracer) if observer.is_stuck() => tracer.asked_to_end(),
            LaunchedProcess::InItsSeat(..) => EndRequests::default(),
        }
    }

    fn forward_signals(&self) {
        // A program in its placeholder receives signals directly.
        if let LaunchedProcess::AsOurChild(pid, _) = self.program {
            for signal in self.watch.take_forwards().filter_map(Signal::from_named_raw) {
                family::send(pid, signal);
            }
        }
    }

    /// Makes the program exit with a status that names the cause, if it can still be stopped.
    fn end_with(&self, tracer: &Tracer, status: u8) {
        tracer.end_with(status);
        let deadline = Instant::now() + STATUS_GRACE;
        while tracer.ended().is_none() && Instant::now() < deadline {
            self.watch.wait(Duration::from_millis(5));
        }
    }

    /// Ends the remaining processes of the run after its program has ended. Returns the names of those that did not end by themselves in
    /// time.
    fn end_the_rest(&self, observer: &mut dyn RunObserver, kindly: bool) -> Vec<String> {
        let mut names = Vec::new();
        if kindly && !self.all_gone_within(self.grace, observer) {
            names = self.family.all_members().into_iter().filter_map(proc::name).collect();
            names.sort();
            names.dedup();
            self.family.signal_all(Signal::TERM);
            self.all_gone_within(LAST_GRACE, observer);
        }
        let deadline = Instant::now() + LAST_GRACE;
        while !self.is_all_gone() && Instant::now() < deadline {
            self.family.signal_all(Signal::KILL);
            self.watch.wait(Duration::from_millis(2));
        }
        names
    }

    fn all_gone_within(&self, time: Duration, observer: &mut dyn RunObserver) -> bool {
        let deadline = Instant::now() + time;
        while !self.is_all_gone() {
            // If the observer reports a failure here, the last inspection reports it again.
            if Instant::now() >= deadline || observer.look(&self.family.members()).is_err() {
                return false;
            }
            self.watch.wait(Duration::from_millis(10));
        }
        true
    }

    fn is_all_gone(&self) -> bool {
        self.program.ended();
        self.family.bury_orphans(self.program.pid());
        self.family.all_members().is_empty()
    }
}
