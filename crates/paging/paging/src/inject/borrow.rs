//! Puts the agent into a process whose memory is borrowed, and takes it out again.
//!
//! The main difference to a program that Unrack started (`attach`): the process gets no system call filter, because a filter could not be
//! removed, and its calls would fail once no tracer is attached. Without a filter, the tracer follows functions of the agent by stopping at
//! each system call, the kernel reports forks to the pager, and only new threads need to be stopped, to pin the pages to which the kernel
//! writes. The tracer may vanish at any time except while it puts the agent in or takes it out: for those milliseconds a thread executes
//! other code than its own.

use super::attach::{self, Seized};
use super::family::TracedThreads;
use super::image::Image;
use super::pin_control_block;
use super::place::{AgentSite, or_error};
use super::remote::{Saved, repeat_interrupted, system_call};
use crate::proc;
use crate::trace::raw;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Instant;
use unrack_pager::blocking::FEATURES_TO_BORROW;
use unrack_pager::handed::FILES;
use unrack_pager::sys::{self, Uffd};

/// Ptrace options for the threads of such a process: new threads are traced too, and `execve` is reported.
const FOLLOW_THREADS: i32 =
    libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;

/// Reason why memory cannot be borrowed from a process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BorrowRefusal {
    /// This thread of the process has a system call filter.
    Filtered(u32),
    /// The process may not be traced.
    Trace(Errno),
    /// Not all threads of the process can be stopped now.
    Stop(Errno),
    /// The process cannot open the files that a pager needs.
    Open(Errno),
    /// The process may have no userfaultfd. `Forks` means that it may have one, but not one that reports forks.
    Userfaultfd(Errno),
    Forks,
    /// The process has no room for the pager's memory or threads.
    Start(Errno),
}

/// A process that contains the agent.
pub(crate) struct Borrowed {
    process: u32,
    place: AgentSite,
}

/// The image of the agent, read once for all processes.
pub(crate) struct Borrower(Image);

impl Borrower {
    /// Reads the image of the agent.
    pub(crate) fn new() -> Borrower {
        Borrower(Image::new())
    }

    /// Puts the agent into a process, and traces all its threads from the calling thread. Also returns those threads.
    ///
    /// # Errors
    /// The reason why the agent cannot be put in; the process then continues as before.
    pub(crate) fn put_into(
        &self,
        process: u32,
        control: &Path,
    ) -> Result<(Borrowed, Vec<u32>), BorrowRefusal> {
        let mut threads = Vec::new();
        let stopped = attach::stop_all(&mut TracedThreads::default(), process, FOLLOW_THREADS, &mut threads);
        let placed = stopped.map_err(refused_stop).and_then(|()| self.put_in(process, &threads, control));
        for thread in threads.iter().filter(|thread| thread.is_stopped) {
            let _ = if placed.is_ok() { raw::run(thread.id, 0) } else { raw::detach(thread.id, 0) };
        }
        let threads = threads.into_iter().map(|thread| thread.id).collect();
        placed.map(|place| (Borrowed { process, place }, threads))
    }

    fn put_in(&self, process: u32, threads: &[Seized], control: &Path) -> Result<AgentSite, BorrowRefusal> {
        let files = open_files(process, control).map_err(|why| match why {
            Errno::NOENT | Errno::SRCH => BorrowRefusal::Trace(Errno::SRCH),
            why => BorrowRefusal::Open(why),
        })?;
        // All threads are stopped, so none can get a filter after this check.
        if let Some(thread) = threads.iter().find(|thread| proc::is_filtered(thread.id)) {
            return Err(BorrowRefusal::Filtered(thread.id));
        }
        let first = attach::able(threads).map_err(refused_stop)?;
        for thread in threads {
            go_on_waiting(thread.id).map_err(BorrowRefusal::Stop)?;
        }
        let saved = Saved::take(first.id).map_err(BorrowRefusal::Stop)?;
        let placed = self.start(process, first.id, &saved, &files);
        saved.return_to_wait(first.id).map_err(BorrowRefusal::Stop)?;
        let place = placed?;
        for thread in threads {
            // Errors are ignored, because a thread that was killed meanwhile needs no pins.
            let _ = pin_control_block(thread.id, &place);
            let _ = attach::pin_cleared_word(thread.id, &place);
        }
        Ok(place)
    }

    fn start(
        &self,
        process: u32,
        thread: u32,
        saved: &Saved,
        files: &[OwnedFd],
    ) -> Result<AgentSite, BorrowRefusal> {
        let place = AgentSite::put(&self.0, thread, saved).map_err(BorrowRefusal::Start)?;
        let call = |number, arguments| system_call(thread, saved, place.instruction(), number, arguments);
        let (base, len) = place.mapping();
        // The agent's mapping is not inherited by a fork, so children do not have the agent.
        let hidden = call(libc::SYS_madvise, [base, len, libc::MADV_DONTFORK as usize, 0, 0, 0]);
        let started = hidden.map_err(BorrowRefusal::Start).and_then(|_| {
            let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as usize;
            let pair = [libc::AF_UNIX as usize, kind, 0, place.buffer(), 0, 0];
            call(libc::SYS_socketpair, pair).map_err(BorrowRefusal::Open)?;
            let mut ends = [0u8; 8];
            raw::read_memory(thread, place.buffer(), &mut ends).map_err(BorrowRefusal::Open)?;
            let [outer, inner] =
                [&ends[..4], &ends[4..]].map(|end| i32::from_ne_bytes(end.try_into().expect("four bytes")));
            let begun = hand_over(process, thread, saved, &place, [outer, inner], files);
            for end in [outer, inner] {
                let _ = call(libc::SYS_close, [end as usize, 0, 0, 0, 0, 0]);
            }
            begun
        });
        if started.is_err() {
            let _ = call(libc::SYS_munmap, [base, len, 0, 0, 0, 0]);
        }
        started
    }
}

fn refused_stop(why: Errno) -> BorrowRefusal {
    match why {
        Errno::PERM | Errno::SRCH => BorrowRefusal::Trace(why),
        _ => BorrowRefusal::Stop(why),
    }
}

/// Opens the files that the process's pager needs, in the order of [`unrack_pager::handed`].
fn open_files(process: u32, control: &Path) -> Result<Vec<OwnedFd>, Errno> {
    use rustix::fs::{Mode, OFlags, open};
    let (all, read) = (OFlags::RDWR | OFlags::CLOEXEC, OFlags::RDONLY | OFlags::CLOEXEC);
    // A lock belongs to an open file description. The pager needs another description than this process, otherwise it could not see that
    // this process's lock is gone.
    let own = open(control, all, Mode::empty())?;
    let mut files = vec![own];
    for name in ["maps", "statm", "pagemap"] {
        files.push(open(format!("/proc/{process}/{name}"), read, Mode::empty())?);
    }
    assert_eq!(files.len(), FILES);
    files.extend(sys::open_device());
    Ok(files)
}

/// Sends the files to the process, makes it create a userfaultfd, enables the features of that, and starts the pager.
fn hand_over(
    process: u32,
    thread: u32,
    saved: &Saved,
    place: &AgentSite,
    [outer, inner]: [i32; 2],
    files: &[OwnedFd],
) -> Result<AgentSite, BorrowRefusal> {
    let pid = Pid::from_raw(process as i32).ok_or(BorrowRefusal::Open(Errno::SRCH))?;
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(BorrowRefusal::Open)?;
    let theirs = |number| pidfd_getfd(&handle, number, PidfdGetfdFlags::empty());
    send_files(theirs(outer).map_err(BorrowRefusal::Open)?.as_fd(), files).map_err(BorrowRefusal::Open)?;
    let received = place.receive(inner as usize).make_unfiltered(thread, saved).and_then(or_error);
    let begun = received.map_err(BorrowRefusal::Userfaultfd).and_then(|uffd| {
        let uffd = Uffd::from(theirs(uffd as i32).map_err(BorrowRefusal::Userfaultfd)?);
        uffd.enable(FEATURES_TO_BORROW).map_err(|_| BorrowRefusal::Forks)?;
        let pins = place.borrow().make_unfiltered(thread, saved).map_err(BorrowRefusal::Start)?;
        place.pinning_in(pins).map_err(BorrowRefusal::Start)
    });
    if begun.is_err() {
        let _ = place.forsake().make_unfiltered(thread, saved);
    }
    begun
}

fn send_files(socket: BorrowedFd, files: &[OwnedFd]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES + 1))];
    let mut extra = SendAncillaryBuffer::new(&mut space);
    let files: Vec<BorrowedFd> = files.iter().map(AsFd::as_fd).collect();
    extra.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[io::IoSlice::new(&[0])], &mut extra, SendFlags::NOSIGNAL).map(drop)
}

/// Makes a thread that was stopped by the tracer continue the system call in which it waited, unless a signal is pending for it.
fn go_on_waiting(thread: u32) -> Result<(), Errno> {
    if proc::has_signal(thread) { Ok(()) } else { repeat_interrupted(thread) }
}

/// Detaches from threads that the calling thread traces. Each thread is first stopped on request and its interrupted wait is restarted. The
/// end of the tracer would detach the threads too, but a signal that the process ignores, and that was delivered only because the thread
/// was traced, might just have interrupted a wait. A thread that cannot be stopped now stays attached until the tracer ends.
pub(crate) fn let_go(threads: impl Iterator<Item = u32>) {
    let asked: Vec<u32> = threads.filter(|thread| raw::interrupt(*thread).is_ok()).collect();
    let deadline = Instant::now() + attach::PATIENCE;
    for thread in asked {
        // Errors are ignored, because a thread that was killed meanwhile needs no detaching.
        let _ = attach::wait_for(&mut TracedThreads::default(), thread, deadline)
            .and_then(|()| go_on_waiting(thread))
            .and_then(|()| raw::detach(thread, 0));
    }
}

impl Borrowed {
    /// Pins the pages to which the kernel writes when a thread ends. Called for each new thread.
    pub(crate) fn pin(&self, thread: u32) {
        // Errors are ignored, because a thread that was killed meanwhile needs no pins.
        let _ = pin_control_block(thread, &self.place);
    }

    /// Returns whether a thread of the agent is alive. The agent's threads are the only ones that this process does not trace.
    pub(crate) fn is_running(&self) -> bool {
        proc::threads(self.process).into_iter().any(|thread| proc::tracer(thread).is_none())
    }

    /// Unmaps the agent. No thread may execute the agent any more.
    ///
    /// # Errors
    /// `ETIMEDOUT` if no thread can be stopped to make the call, `ESRCH` if the process has ended.
    pub(crate) fn take_out(&self) -> Result<(), Errno> {
        let thread = attach::stop_any(self.process)?;
        let (base, len) = self.place.mapping();
        let unmapped = go_on_waiting(thread).and_then(|()| Saved::take(thread)).and_then(|saved| {
            let unmap = [base, len, 0, 0, 0, 0];
            let unmapped = system_call(thread, &saved, self.place.instruction(), libc::SYS_munmap, unmap);
            saved.return_to_wait(thread).and(unmapped)
        });
        raw::run(thread, 0)?;
        unmapped.map(drop)
    }
}
