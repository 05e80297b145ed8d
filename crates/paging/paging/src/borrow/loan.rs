//! One loan of a process's memory, from its start until all memory was given back.
//!
//! One thread does everything: it traces the threads of the process, which stop only for signals and at their creation, and it inspects the
//! processes of the run periodically.

use super::{BorrowReport, BorrowSetup, LEFT_OUT, RunningProgram};
use crate::control_file::ControlFile;
use crate::folder::ScratchFolder;
use crate::headroom::MemoryHeadroom;
use crate::inject::{Borrowed, Borrower, let_go, pass_over};
use crate::local::{self, Unseen};
use crate::measure::{self, Tally};
use crate::program_end::ProgramEnd;
use crate::signals::SignalGuard;
use crate::trace::{self, ResumeMode, Stop, raw};
use crate::{PagingError, guard, proc};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use unrack_pager::sys::now_ns;
use unrack_record::Warning;

/// Interval between two inspections of the run.
const PACE: Duration = Duration::from_millis(100);
/// Age at which a forked process gets the agent. Most forked processes end or execute another program before that age.
const SETTLED: Duration = Duration::from_millis(200);
/// Time that pagers have to give all memory back; they move gigabytes per second. `LAST_PATIENCE` is the time that the threads of the
/// pagers then have to end.
const PATIENCE: Duration = Duration::from_secs(300);
const LAST_PATIENCE: Duration = Duration::from_secs(2);
const CONTROL_NAME: &str = "control";
/// Takes part of a process's memory away for a while, and gives it back. The process continues to run in any case.
///
/// # Errors
/// [`PagingError::Lacking`] if memory cannot be borrowed from this process, which is then unchanged; [`PagingError::Failed`]
/// if the pager of the process failed.
pub fn borrow(setup: &BorrowSetup) -> Result<BorrowReport, PagingError> {
    // The kernel detaches all threads that this thread still traces when it ends, so the loan runs in a separate thread.
    let traced = std::thread::scope(|scope| scope.spawn(|| borrow_here(setup)).join());
    traced.unwrap_or_else(|_| Err(PagingError::Failed("internal error. Please report this".into())))
}

fn borrow_here(setup: &BorrowSetup) -> Result<BorrowReport, PagingError> {
    let watch = SignalGuard::start()?;
    let folder = ScratchFolder::fast()?;
    let path = folder.path(CONTROL_NAME);
    let control = ControlFile::create(&path, &setup.delay.samples)?;
    measure::set_link(&control, setup.local, setup.delay, setup.calibration, setup.seed);
    control.settings.start_ns.store(now_ns(), Relaxed);
    let mut loan = ProcessLoan::new(setup, &control, &watch);
    let put_in = |pid| loan.borrower.put_into(pid, &path);
    let (borrowed, threads) = put_in(setup.program.pid).map_err(|why| setup.program.refused(why))?;
    loan.took(setup.program.pid, borrowed, threads);
    if setup.with_children {
        for pid in proc::descendants(setup.program.pid) {
            loan.follow(pid, &path);
        }
    }
    loan.note_left_out();
    let outcome = loan.until_the_end(&path);
    let given_back = loan.give_back();
    let_go(loan.threads.drain());
    given_back?;
    outcome?;
    Ok(loan.report())
}

/// A loan in progress.
struct ProcessLoan<'a> {
    setup: &'a BorrowSetup<'a>,
    control: &'a ControlFile,
    watch: &'a SignalGuard,
    borrower: Borrower,
    begun: Instant,
    /// Processes that have the agent.
    hosts: HashMap<u32, Borrowed>,
    /// Threads that are traced.
    threads: HashSet<u32>,
    /// Processes that are left alone: those that existed before the loan, and those into which the agent cannot be put.
    strangers: HashSet<u32>,
    /// Names and numbers of the left-alone processes that existed before the loan.
    left_out: Vec<String>,
    /// Forked processes without the agent, and when each was first seen.
    young: HashMap<u32, Instant>,
    unseen: Unseen,
    taken_s: Option<f64>,
    status: Option<ProgramEnd>,
    has_ended: bool,
    wall_s: f64,
}

impl<'a> ProcessLoan<'a> {
    fn new(setup: &'a BorrowSetup<'a>, control: &'a ControlFile, watch: &'a SignalGuard) -> ProcessLoan<'a> {
        ProcessLoan {
            setup,
            control,
            watch,
            borrower: Borrower::new(),
            begun: Instant::now(),
            hosts: HashMap::new(),
            threads: HashSet::new(),
            strangers: match setup.with_children {
                true => HashSet::new(),
                false => proc::descendants(setup.program.pid).into_iter().collect(),
            },
            left_out: Vec::new(),
            young: HashMap::new(),
            unseen: Unseen::default(),
            taken_s: None,
            status: None,
            has_ended: false,
            wall_s: 0.0,
        }
    }

    fn took(&mut self, process: u32, borrowed: Borrowed, threads: Vec<u32>) {
        self.threads.extend(threads);
        self.hosts.insert(process, borrowed);
    }

    /// Notes the processes that the program had started before the loan and that keep their memory.
    fn note_left_out(&mut self) {
        let mut pids: Vec<u32> =
            self.strangers.iter().copied().filter(|pid| !proc::has_ended(*pid)).collect();
        pids.sort_unstable();
        let title = |pid| format!("{} ({pid})", proc::name(pid).unwrap_or_default());
        self.left_out = pids.into_iter().map(title).collect();
    }

    /// Returns the warning that names the processes that keep their memory.
    fn left_out(&self) -> Option<Warning> {
        const SHOWN: usize = 8;
        let more = match self.left_out.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let what_to_do = match self.setup.with_children {
            true => "their memory cannot be taken",
            false => "--tree takes theirs, too",
        };
        let shown = &self.left_out[..self.left_out.len().min(SHOWN)];
        let text = format!(
            "processes that it had started before kept all of their memory: {}{more}; {what_to_do}",
            shown.join(", ")
        );
        (!self.left_out.is_empty()).then(|| Warning::new(LEFT_OUT, text))
    }

    /// Checks that a fork could copy all remote pages without exhausting the memory.
    fn check_headroom(&self) -> Result<(), PagingError> {
        let remote: u64 = self.control.live_slots().map(|slot| slot.remote_pages.load(Relaxed)).sum();
        let Some(headroom) = MemoryHeadroom::of_process(self.setup.program.pid) else { return Ok(()) };
        measure::note_headroom(self.control, Some(&headroom));
        if headroom.bytes >= remote.saturating_mul(proc::PAGE) {
            return Ok(());
        }
        Err(PagingError::Failed(format!(
            "all memory was given back before its time: {} MiB were away, which the child of a fork would get as copies, and \
             only {} MiB are left in {}",
            (remote * proc::PAGE) >> 20,
            headroom.bytes >> 20,
            headroom.of
        )))
    }

    /// Serves the process until it ends or all memory is to be given back.
    fn until_the_end(&mut self, control: &std::path::Path) -> Result<(), PagingError> {
        let mut next_look = Instant::now();
        loop {
            self.serve();
            self.has_ended |= self.setup.program.has_ended();
            let is_over = self.setup.time.is_some_and(|time| self.begun.elapsed() >= time);
            if self.has_ended || is_over || self.watch.stopped_by().is_some() || guard::is_lost() {
                return Ok(());
            }
            if let Some(why) = self.control.failure() {
                return Err(PagingError::Failed(why));
            }
            if Instant::now() >= next_look {
                self.look(control);
                self.check_headroom()?;
                next_look = Instant::now() + PACE;
            }
            self.watch.wait(next_look.saturating_duration_since(Instant::now()));
        }
    }

    /// Handles all pending stops and exits of traced threads.
    fn serve(&mut self) {
        while let Ok(Some(found)) = raw::look(true, false) {
            match found.stop {
                Some(_) => self.stopped(found.thread),
                None => self.ended(found.thread),
            }
        }
    }

    fn stopped(&mut self, thread: u32) {
        let Some(status) = raw::take_stop(thread) else { return };
        let next = match Stop::of(thread, status) {
            // If a new thread stops for any other reason, its creation stop was handled before.
            stop @ Stop::Pause if self.threads.insert(thread) => self.was_made(thread, stop),
            Stop::Exec { .. } => self.became_another(thread),
            Stop::Signal(signal) if pass_over(thread, signal) => ResumeMode::Run(0),
            stop => stop.onward(),
        };
        // If a thread was killed meanwhile, the next `wait` call finds its exit.
        let _ = match next {
            ResumeMode::Run(signal) => raw::run(thread, signal),
            ResumeMode::Listen => raw::listen(thread),
            _ => raw::detach(thread, 0),
        };
    }

    fn was_made(&mut self, thread: u32, stop: Stop) -> ResumeMode {
        let host = proc::process_of(thread).and_then(|process| self.hosts.get(&process));
        match host {
            Some(host) => {
                host.pin(thread);
                stop.onward()
            }
            // The thread belongs to a process that was not created by a fork.
            None => {
                self.threads.remove(&thread);
                ResumeMode::Leave
            }
        }
    }

    /// Detaches from a process that has executed another program. The process has lost the agent, and may get it again later.
    fn became_another(&mut self, process: u32) -> ResumeMode {
        self.hosts.remove(&process);
        self.threads.remove(&process);
        self.free_slots(|pid| pid == process);
        self.young.insert(process, Instant::now());
        ResumeMode::Leave
    }

    fn ended(&mut self, thread: u32) {
        if thread == self.setup.program.pid {
            self.status = trace::end_of(thread);
        }
        raw::bury(thread);
        self.threads.remove(&thread);
    }

    fn free_slots(&self, is_to_go: impl Fn(u32) -> bool) {
        for slot in self.control.live_slots() {
            let pid = slot.pid.load(Relaxed);
            if is_to_go(pid) {
                self.control.free(slot, pid);
            }
        }
    }

    /// Inspects the processes: finds new and ended ones, and shares out the local memory.
    fn look(&mut self, control: &std::path::Path) {
        self.free_slots(proc::has_ended);
        self.hosts.retain(|pid, _| !proc::has_ended(*pid));
        self.young.retain(|pid, _| !proc::has_ended(*pid));
        self.note_taken();
        for pid in proc::descendants(self.setup.program.pid) {
            if !self.hosts.contains_key(&pid) && !self.strangers.contains(&pid) {
                self.young.entry(pid).or_insert_with(Instant::now);
            }
        }
        let grown = self.young.iter().filter(|(_, since)| since.elapsed() >= SETTLED).map(|(pid, _)| *pid);
        for pid in grown.collect::<Vec<_>>() {
            self.young.remove(&pid);
            self.follow(pid, control);
        }
        let members: Vec<u32> = self.hosts.keys().copied().collect();
        self.unseen.look(&members, &[]);
        local::share_out(self.control, &members);
    }

    /// Puts the agent into another process of the program, if possible.
    fn follow(&mut self, pid: u32, control: &std::path::Path) {
        let is_fit = RunningProgram::check(pid).is_ok();
        match is_fit.then(|| self.borrower.put_into(pid, control)) {
            Some(Ok((borrowed, threads))) => self.took(pid, borrowed, threads),
            _ => _ = self.strangers.insert(pid),
        }
    }

    /// Notes the time at which local memory has shrunk to the limit, and restarts the peak there, because earlier values are not a peak of
    /// the loan.
    fn note_taken(&mut self) {
        let limit = self.setup.local.get() / proc::PAGE;
        let sum = |field: fn(&unrack_pager::control::ProcessSlot) -> u64| -> u64 {
            self.control.live_slots().map(field).sum()
        };
        let local = sum(|slot| slot.local_pages.load(Relaxed));
        if self.taken_s.is_none() && local > 0 && local <= limit + limit / 8 {
            self.taken_s = Some(self.begun.elapsed().as_secs_f64());
            self.control.counts.peak_local.store(0, Relaxed);
            self.control.counts.over_ns.store(0, Relaxed);
        }
    }

    /// Makes the pagers give all memory back, and removes the agent from the processes.
    fn give_back(&mut self) -> Result<(), PagingError> {
        self.wall_s = self.begun.elapsed().as_secs_f64();
        self.control.settings.recall.store(1, Relaxed);
        let deadline = Instant::now() + PATIENCE;
        while self.is_any_out() {
            if Instant::now() > deadline {
                let text = "its memory could not be given back yet; the pager in the program keeps trying";
                return Err(PagingError::Failed(text.into()));
            }
            self.serve_for_a_moment();
        }
        let deadline = Instant::now() + LAST_PATIENCE;
        let hosts = std::mem::take(&mut self.hosts);
        for host in hosts.values() {
            while host.is_running() && Instant::now() < deadline {
                self.serve_for_a_moment();
            }
            // If the agent cannot be removed, the process only keeps some memory with code that no thread runs.
            if !host.is_running() {
                let _ = host.take_out();
            }
        }
        Ok(())
    }

    /// Returns whether any pager has not yet given all its memory back.
    fn is_any_out(&self) -> bool {
        self.free_slots(proc::has_ended);
        self.control.live_slots().next().is_some()
    }

    fn serve_for_a_moment(&mut self) {
        self.serve();
        self.watch.wait(Duration::from_millis(1));
    }

    fn report(&self) -> BorrowReport {
        let threads = self.control.next_thread.load(Relaxed);
        let tally = Tally::from_counts(&self.control.counts, threads);
        let local = self.unseen.with_counts(&self.control.counts);
        let limit = self.setup.local;
        let mut warnings = Vec::new();
        match tally.deactivations {
            0 => warnings.extend(local::none_taken(limit, self.setup.footprint)),
            _ => warnings.extend(local.not_away(limit, self.wall_s).or_else(|| local.peak(limit))),
        }
        warnings.extend(local.shared(limit));
        warnings.extend(tally.copies());
        warnings.extend(tally.short_of_memory());
        warnings.extend(self.left_out());
        BorrowReport {
            status: self.status,
            has_ended: self.has_ended,
            wall_s: self.wall_s,
            taken_s: self.taken_s,
            tally,
            local,
            warnings,
        }
    }
}
