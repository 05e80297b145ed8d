//! The pager for programs into which no library can be preloaded. Their tracer injects the agent (`unrack-agent`).
//!
//! Before the first instruction of such a program, the tracer makes its only thread map the agent, install a system call filter, and start
//! the pager. From then on every thread and process that descends from it is traced, and stops at those system calls that concern the
//! pager:
//!
//! | call | what happens |
//! |---|---|
//! | `fork`, or a `clone` that copies memory | the thread first waits until all remote pages are back in the program; the child gets its own pager |
//! | `mremap` that fails with `EFAULT` | the pager merges the range into one mapping, and the thread repeats the call |
//! | `mlockall` | the call is skipped, as for preloaded programs |
//! | `set_tid_address` | the page to which the kernel will write is pinned, like the control block of each new thread |
//! | `userfaultfd` | the program is ended, because memory cannot have two pagers |
//! | `seccomp`, or `prctl` that filters system calls | all remote pages return to the program and the pager ends, because the filter might end the program for the pager's calls |
//!
//! | module | idea |
//! |---|---|
//! | `image` | the memory image of the agent |
//! | `place` | puts the image into a program |
//! | `remote` | actions that a stopped thread is made to do |
//! | `filter` | the system calls that stop |
//! | `attach` | puts the agent into a program that runs already |
//! | `borrow` | puts the agent into a process that must later continue without it |
//! | `reception`, `guest` | processes that ask for the agent because they become or start such a program |
//! | `family` | threads, their address spaces, and newly created threads |
//! | `environment` | the library that a loader would preload |
//!
//! Functions of the agent run on stacks of the agent, in a thread of the program whose registers and signal mask are saved. The tracer
//! waits for short functions. It does not wait for long functions, during which remote pages return to the program; in each process, only
//! one thread at a time runs a long function.

mod attach;
mod borrow;
mod environment;
mod family;
mod filter;
mod guest;
mod image;
mod place;
mod reception;
mod remote;

use crate::PagingError;
use crate::control_file::ControlFile;
use crate::elf::{self, Elf, PagerEntry};
use crate::trace::{self, ResumeMode, Stop, StopHandler, USUAL, raw};
pub(crate) use borrow::{BorrowRefusal, Borrowed, Borrower, let_go};
pub(crate) use reception::Reception;
pub(crate) use remote::pass_over;

use family::{AgentStay, ThreadActivity, TracedThreads};
use guest::GuestThread;
use image::Image;
use place::{AgentSite, Entry};
use remote::{Saved, repeated, skip_call};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use unrack_pager::{gate, pins};

/// Ptrace options for processes with the agent: everything that they create is traced, and their filter reports to the tracer.
const FOLLOW: i32 = USUAL
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACESECCOMP;

/// Handler of stops that puts the agent into programs.
pub(crate) struct Injector {
    image: Image,
    control: ControlFile,
    path: CString,
    family: TracedThreads,
    begins: Begins,
    /// Traced threads whose next program gets the agent (`parents`), and the processes that they have started (`started`).
    parents: HashSet<u32>,
    started: HashSet<u32>,
}

/// The program or thread that is traced when the tracer thread starts.
enum Begins {
    /// The program that requested tracing itself.
    Program,
    /// A process that runs already.
    Running(u32),
    /// A thread that asked at the reception socket.
    Guest(GuestThread),
}

impl Injector {
    /// Makes the handler for a run with this control file.
    ///
    /// # Errors
    /// [`PagingError::Failed`] if the file cannot be opened.
    pub(crate) fn new(control: &Path) -> Result<Injector, PagingError> {
        let path = CString::new(control.as_os_str().as_bytes())
            .map_err(PagingError::failed(format_args!("use {}", control.display())))?;
        let control = ControlFile::open(control)?;
        Ok(Injector {
            image: Image::new(),
            control,
            path,
            family: TracedThreads::default(),
            begins: Begins::Program,
            parents: HashSet::new(),
            started: HashSet::new(),
        })
    }

    /// Puts the agent into a running process, and follows the process. Success shows only in the control file, where the process then has a
    /// slot.
    ///
    /// # Errors
    /// [`PagingError::Failed`] if the control file cannot be opened, or this machine has no room for another thread.
    pub(crate) fn attach(control: &Path, process: u32) -> Result<(), PagingError> {
        trace::follow(Injector { begins: Begins::Running(process), ..Injector::new(control)? })
    }

    /// Traces a thread that asked for it. The program that the thread executes or starts next gets the agent.
    fn admit(control: &Path, guest: GuestThread) -> Result<(), PagingError> {
        trace::follow(Injector { begins: Begins::Guest(guest), ..Injector::new(control)? })
    }

    /// Returns whether a thread asked to be traced only because of a program that it starts.
    fn is_parent(&self, thread: u32) -> bool {
        matches!(&self.begins, Begins::Guest(guest) if guest.is_parent && guest.thread == thread)
    }

    fn handle(&mut self, thread: u32, stop: Stop) -> Result<ResumeMode, Errno> {
        if stop == Stop::Signal(libc::SIGSTOP)
            && let Some(guest) = guest::waiting(thread)
        {
            raw::set_options(thread, FOLLOW)?;
            self.parents.insert(thread);
            guest.answer();
            return Ok(ResumeMode::Run(0));
        }
        match stop {
            Stop::Exec { before } => self.became_another(thread, before),
            Stop::Birth { child } => self.gave_birth(thread, child),
            Stop::Pause if !self.family.knows(thread) => self.was_born(thread),
            Stop::Seccomp { data: filter::OF_AGENT } => self.left_agent(thread),
            Stop::Seccomp { .. } => self.makes_call(thread),
            Stop::SyscallExit => self.made_call(thread),
            Stop::Signal(_) | Stop::Group(_) | Stop::Pause => Ok(self.family.defer(thread, stop)),
        }
    }

    /// Puts the agent into the program that a process has just executed, if the program needs it.
    fn became_another(&mut self, thread: u32, before: u32) -> Result<ResumeMode, Errno> {
        self.free_slot(thread);
        self.family.became_another(thread, before);
        if !wants_agent(thread) {
            let is_guest = matches!(self.begins, Begins::Guest(_)) || self.started.remove(&thread);
            let is_of_no_interest = is_guest && !self.family.is_filtered(thread);
            return Ok(if is_of_no_interest { ResumeMode::Leave } else { ResumeMode::Run(0) });
        }
        self.family.set(thread, ThreadActivity::Beginning);
        Ok(ResumeMode::ToSyscallExit(0))
    }

    /// Frees the slot of the program that a process ran before.
    fn free_slot(&self, process: u32) {
        for slot in self.control.live_slots() {
            let _ = slot.pid.compare_exchange(process, 0, Relaxed, Relaxed);
        }
    }

    fn begin(&mut self, thread: u32) -> Result<ResumeMode, Errno> {
        raw::set_options(thread, FOLLOW)?;
        let saved = Saved::take(thread)?;
        let entry = Entry { is_filtered: self.family.is_filtered(thread), is_late: false };
        if attach::has_own_filter(thread, entry.is_filtered) {
            crate::say(&format!(
                "process {thread} runs without remote memory: its system calls are filtered (seccomp)"
            ));
            self.family.set(thread, ThreadActivity::OwnWork);
            saved.restore(thread)?;
            return Ok(ResumeMode::Run(0));
        }
        // A program without a loader keeps the variable, because it may start programs that have a loader.
        if is_loaded(thread) {
            // If this fails, the loader reports that it could not load the library.
            let _ = environment::hide_library(thread, saved.registers.rsp as usize);
        }
        match AgentSite::take(&self.image, thread, &saved, entry, &self.path) {
            Ok(place) => {
                self.control.settings.has_agents_filter.store(1, Relaxed);
                self.family.settle(thread, place);
            }
            Err(Errno::SRCH) => return Err(Errno::SRCH),
            Err(why) => crate::say(&format!("a process runs without remote memory: {why}")),
        }
        self.family.set(thread, ThreadActivity::OwnWork);
        saved.restore(thread)?;
        Ok(ResumeMode::Run(0))
    }

    fn gave_birth(&mut self, thread: u32, child: u32) -> Result<ResumeMode, Errno> {
        let is_fork = matches!(self.family.doing(thread), ThreadActivity::Forking);
        if self.family.gave_birth(thread, child, is_fork) {
            // The child has stopped before its parent reported it.
            if let Ok(ResumeMode::Run(_)) = self.was_born(child) {
                let _ = raw::run(child, 0);
            }
        }
        if self.is_parent(thread) {
            self.family.forget(thread);
            return Ok(ResumeMode::Leave);
        }
        if self.parents.remove(&thread) {
            self.started.insert(child);
            raw::set_options(thread, USUAL)?;
        }
        Ok(if is_fork { ResumeMode::ToSyscallExit(0) } else { ResumeMode::Run(0) })
    }

    /// Prepares a new process or thread before its first instruction.
    fn was_born(&mut self, thread: u32) -> Result<ResumeMode, Errno> {
        let Some(is_copy) = self.family.take_in(thread) else { return Ok(ResumeMode::Hold) };
        let Some(place) = self.family.place(thread) else { return Ok(ResumeMode::Run(0)) };
        if is_copy {
            let saved = Saved::take(thread)?;
            place.in_child().make(thread, &saved)?;
            saved.restore(thread)?;
        } else {
            pin_control_block(thread, &place)?;
        }
        Ok(ResumeMode::Run(0))
    }

    /// Handles a stop at a system call that a thread is about to make.
    fn makes_call(&mut self, thread: u32) -> Result<ResumeMode, Errno> {
        match self.family.replace(thread, ThreadActivity::OwnWork) {
            ThreadActivity::ForkAgain(saved) => {
                saved.restore_signals(thread)?;
                self.family.set(thread, ThreadActivity::Forking);
                return Ok(ResumeMode::ToSyscallExit(0));
            }
            ThreadActivity::RemapAgain(saved) => {
                saved.restore_signals(thread)?;
                return Ok(ResumeMode::Run(0));
            }
            ThreadActivity::FilterAgain(saved) => {
                saved.restore_signals(thread)?;
                self.family.left(thread);
                return Ok(ResumeMode::Run(0));
            }
            _ => {}
        }
        let Some(place) = self.family.place(thread) else { return Ok(ResumeMode::Run(0)) };
        let registers = raw::registers(thread)?;
        match registers.orig_rax as libc::c_long {
            libc::SYS_mremap => {
                self.family.set(thread, ThreadActivity::Remapping);
                return Ok(ResumeMode::ToSyscallExit(0));
            }
            libc::SYS_mlockall => skip_call(thread, 0)?,
            libc::SYS_set_tid_address => {
                place.pin(thread, registers.rdi as usize / PAGE * PAGE)?;
                pin_control_block(thread, &place)?;
            }
            libc::SYS_userfaultfd => self.end(thread, gate::OWN_PAGER)?,
            libc::SYS_prctl if registers.rdi != libc::PR_SET_SECCOMP as u64 => {}
            libc::SYS_seccomp if registers.rdi != u64::from(libc::SECCOMP_SET_MODE_FILTER) => {}
            libc::SYS_prctl | libc::SYS_seccomp => return self.enter(thread, AgentStay::leave(place)),
            libc::SYS_clone3 if shares_memory(thread, registers.rdi as usize) => {}
            _ => return self.enter(thread, AgentStay::fork(place)),
        }
        Ok(ResumeMode::Run(0))
    }

    /// Handles a stop at the end of a system call.
    fn made_call(&mut self, thread: u32) -> Result<ResumeMode, Errno> {
        let doing = self.family.replace(thread, ThreadActivity::OwnWork);
        let place = self.family.place(thread);
        match (doing, place) {
            (ThreadActivity::Beginning, _) => return self.begin(thread),
            (ThreadActivity::Forking, Some(place)) => {
                let mut saved = Saved::take(thread)?;
                place.after_fork().make(thread, &saved)?;
                // The fork was interrupted by a signal. The signal is handled first, and then the thread repeats the fork.
                if saved.registers.rax as i64 == -RESTART {
                    saved.registers = repeated(saved.registers);
                }
                saved.restore(thread)?;
            }
            (ThreadActivity::Remapping, Some(place)) => {
                let registers = raw::registers(thread)?;
                if registers.rax as i64 == -i64::from(libc::EFAULT) {
                    let (start, len) = (registers.rdi as usize, registers.rsi as usize);
                    return self.enter(thread, AgentStay::remap(place, start, len));
                }
            }
            _ => {}
        }
        Ok(ResumeMode::Run(0))
    }

    /// Queues a thread for a long function of the agent, and starts the function if the agent is free.
    fn enter(&mut self, thread: u32, turn: AgentStay) -> Result<ResumeMode, Errno> {
        let saved = Saved::take(thread)?;
        if !self.family.queue(thread, turn, saved) {
            return Ok(ResumeMode::Hold);
        }
        self.family.start(thread)?;
        Ok(ResumeMode::Run(0))
    }

    /// Makes a thread leave the agent and repeat the system call for which it had entered, and continues the next thread.
    fn left_agent(&mut self, thread: u32) -> Result<ResumeMode, Errno> {
        let result = self.family.leave(thread);
        self.family.next_turn();
        result?;
        Ok(ResumeMode::Run(0))
    }

    /// Ends a program, and notes the reason for the user.
    fn end(&self, thread: u32, why: &str) -> Result<(), Errno> {
        self.control.fail_lacking(why);
        let mut registers = raw::registers(thread)?;
        (registers.orig_rax, registers.rdi) = (libc::SYS_exit_group as u64, u64::from(gate::LACKING));
        raw::set_registers(thread, &registers)
    }
}

/// Returns whether the program of a process needs the agent: the program is built for this machine, and the loader does not preload
/// Unrack's library into it.
fn wants_agent(process: u32) -> bool {
    match program_of(process).and_then(|elf| elf.entrance()) {
        None => false,
        Some(PagerEntry::Agent) => true,
        Some(PagerEntry::Preload) => !environment::preloads(process),
    }
}

fn is_loaded(process: u32) -> bool {
    matches!(program_of(process), Some(Elf::Dynamic(_)))
}

fn program_of(process: u32) -> Option<Elf> {
    elf::read(&std::fs::File::open(format!("/proc/{process}/exe")).ok()?).ok()
}

/// Internal error of the kernel (`ERESTARTNOINTR`): the call is repeated after a signal was handled.
const RESTART: i64 = 513;
const PAGE: usize = unrack_pager::sys::PAGE;

/// Pins the pages to which the kernel writes when a thread ends: its control block, and the word that the thread registered to be cleared.
fn pin_control_block(thread: u32, place: &AgentSite) -> Result<(), Errno> {
    let registers = raw::registers(thread)?;
    for page in pins::control_block(registers.fs_base as usize) {
        place.pin(thread, page)?;
    }
    if let Some(word) = word_cleared_at_end(thread, &registers) {
        place.pin(thread, word / PAGE * PAGE)?;
    }
    Ok(())
}

fn word_cleared_at_end(thread: u32, registers: &libc::user_regs_struct) -> Option<usize> {
    let (flags, word) = match registers.orig_rax as libc::c_long {
        libc::SYS_clone => (registers.rdi, registers.r10 as usize),
        libc::SYS_clone3 => {
            let at = registers.rdi as usize;
            (word_at(thread, at)?, word_at(thread, at + 16)? as usize)
        }
        _ => return None,
    };
    (flags & libc::CLONE_CHILD_CLEARTID as u64 != 0).then_some(word)
}

/// Returns whether a `clone3` call, with its arguments at this address, creates a thread or process that shares memory.
fn shares_memory(thread: u32, arguments: usize) -> bool {
    word_at(thread, arguments).is_none_or(|flags| flags & libc::CLONE_VM as u64 != 0)
}

fn word_at(thread: u32, at: usize) -> Option<u64> {
    let mut word = [0u8; 8];
    raw::read_memory(thread, at, &mut word).ok().map(|()| u64::from_ne_bytes(word))
}

impl StopHandler for Injector {
    fn begin(&mut self) {
        match &self.begins {
            Begins::Program => {}
            Begins::Running(process) => attach::attach(self, *process),
            Begins::Guest(guest) => {
                if guest.seize() {
                    self.family.found(guest.thread);
                }
            }
        }
    }

    fn stopped(&mut self, thread: u32, stop: Stop) -> ResumeMode {
        match self.handle(thread, stop) {
            Ok(next) => next,
            // The thread was killed meanwhile.
            Err(Errno::SRCH) => ResumeMode::Hold,
            Err(_) => stop.onward(),
        }
    }

    fn ended(&mut self, thread: u32) {
        self.family.forget(thread);
        self.family.next_turn();
    }
}
