//! Runs a program with remote memory, and measures the run.

use crate::calibrate::{Calibration, FaultMode};
use crate::control_file::ControlFile;
use crate::delay::FetchDelay;
use crate::elf::{self, PagerEntry};
use crate::folder::ScratchFolder;
use crate::headroom::MemoryHeadroom;
use crate::inject::{Injector, Reception};
use crate::job::{CheckedProgram, OutputTarget};
use crate::launch::{self, Launch, RunObserver};
use crate::local::{self, LocalMemory, Unseen};
use crate::memory_nodes::{MemoryNodes, NodeTraffic, RemoteNodes};
use crate::placeholder::Placeholder;
use crate::program_end::ProgramEnd;
use crate::silence::{LossWarnings, SilenceWarnings};
use crate::trace::AnyHandler;
use crate::{PagingError, bypass, capture, machine, proc};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use unrack_pager::control::{CONTROL_VARIABLE, PagerCounts};
use unrack_pager::sys::now_ns;
use unrack_record::{Warning, trace};
use unrack_units::Bytes;

/// Shortest interval between two inspections. More frequent ones are harmful: while a process reads in `/proc`, `wait4` for a process that
/// ended can spin in the kernel for seconds (Linux 6.18, `shrink_dcache_parent`).
const PACE: Duration = Duration::from_millis(200);
/// Time after the start of a program within which it gets its pager.
const SETTLED: Duration = Duration::from_millis(200);
/// A process that waits longer than this for a memory node counts as stuck.
const STUCK: Duration = Duration::from_millis(200);
/// Bytes of memory that are kept free, not used for copies of pages that processes share.
const RESERVED: u64 = 64 << 20;
/// Interval between two readings of the available memory.
const HEADROOM_PACE: Duration = Duration::from_millis(500);
const PRELOADED: &str = "libunrack_preload";

/// Parameters of a run with remote memory.
pub struct RunSetup<'a> {
    /// Local memory of all processes together.
    pub local: Bytes,
    /// The program's footprint, if known.
    pub footprint: Option<Bytes>,
    pub delay: &'a FetchDelay,
    pub calibration: Calibration,
    /// Seed of the random draws, if the delay is drawn.
    pub seed: u64,
    pub capture: Option<CaptureTo<'a>>,
    /// Memory nodes that store the remote pages; `None` if private memory of the program stores them.
    pub nodes: Option<RemoteNodes<'a>>,
    pub output: OutputTarget,
    /// Time at which the program is ended if it still runs.
    pub until: Option<Instant>,
    /// Process that becomes the program. Its parent gets the program's exit status when the placeholder is dropped.
    pub placeholder: Option<&'a Placeholder>,
    /// Time that processes may continue after the program has ended; `None` means 500 ms.
    pub grace: Option<Duration>,
    /// Maximum number of pages that are fetched ahead at once in blocking mode; 0 disables read-ahead.
    pub read_ahead: u32,
}

/// Path of the trace, and data about the program that the trace should contain.
pub struct CaptureTo<'a> {
    pub path: &'a Path,
    pub native_s: Option<f64>,
}

/// Result of a run with remote memory.
#[derive(Debug, Clone)]
pub struct RunReport {
    pub status: ProgramEnd,
    pub wall_s: f64,
    pub tally: Tally,
    pub local: LocalMemory,
    /// Traffic between the run and each memory node.
    pub nodes: Vec<NodeTraffic>,
    /// Warnings that readers should see before they trust the figures.
    pub warnings: Vec<Warning>,
}

/// Counts of events, summed over all processes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Fetches for which a thread waited.
    pub fetches: u64,
    /// Pages that were fetched ahead.
    pub ahead: u64,
    /// Pages that were fetched ahead but for which a thread waited nevertheless. They are included in `fetches`.
    pub late: u64,
    pub write_backs: u64,
    pub soft_faults: u64,
    pub first_touches: u64,
    pub deactivations: u64,
    pub stuck: u64,
    /// Fetches for which the pager took longer than the delay that was to be injected.
    pub below_floor: u64,
    /// Time in ns that threads waited for fetches, summed.
    pub wait_ns: u64,
    /// Time in ns that the pager spent on faults that a real memory blade would not cause, summed.
    pub overhead_ns: u64,
    /// Time in ns that the most affected thread lost to the pager itself.
    pub pager_ns: u64,
    pub thawed: u64,
    /// `unshared` counts pages that were copied for a process because it shared them with others since a fork. `kept_shared` counts how
    /// often pages stayed shared and local instead, because memory was short.
    pub unshared: u64,
    pub kept_shared: u64,
    pub processes: u64,
    /// Number of threads that faulted.
    pub threads: u64,
}

/// Smallest number of copied pages that is reported.
const FEW_COPIES: u64 = 256;

impl Tally {
    /// Returns the warning that pages which processes share were copied and paged for each process separately.
    pub(crate) fn copies(&self) -> Option<Warning> {
        let text = format!(
            "{} pages that processes shared since a fork were copied and then paged for each process by itself: a kernel \
             that swaps would page them once",
            self.unshared
        );
        let is_much = self.unshared > FEW_COPIES && self.unshared > self.fetches / 20;
        is_much.then(|| Warning::new("unshared", text))
    }

    /// Returns the warning that shared pages stayed local because there was no memory for copies of them.
    pub(crate) fn short_of_memory(&self) -> Option<Warning> {
        let text = "pages that processes share since a fork stayed local, because memory is too short to copy them for \
            each process: raise the limit of memory (cgroup), or ask for a larger share";
        (self.kept_shared > 0).then(|| Warning::new("short-of-memory", text))
    }

    /// Corrects the counts of transfers by the captured records. A process that is killed between recording a transfer and counting it
    /// leaves one more record than counted. Larger differences are left visible, because they indicate an error.
    fn agree_with(&mut self, captured: &[trace::Row]) {
        let of = |kind| captured.iter().filter(|row| row.kind == kind).count() as u64;
        for (counted, kind) in
            [(&mut self.fetches, trace::Kind::Fetch), (&mut self.write_backs, trace::Kind::WriteBack)]
        {
            let captured = of(kind);
            if (1..=self.processes).contains(&captured.saturating_sub(*counted)) {
                *counted = captured;
            }
        }
    }

    pub(crate) fn from_counts(counts: &PagerCounts, threads: u32) -> Tally {
        Tally {
            fetches: counts.fetches.load(Relaxed),
            ahead: counts.ahead.load(Relaxed),
            late: counts.late.load(Relaxed),
            write_backs: counts.write_backs.load(Relaxed),
            soft_faults: counts.soft_faults.load(Relaxed),
            first_touches: counts.first_touches.load(Relaxed),
            deactivations: counts.deactivations.load(Relaxed),
            stuck: counts.stuck.load(Relaxed),
            below_floor: counts.below_floor.load(Relaxed),
            wait_ns: counts.wait_ns.load(Relaxed),
            overhead_ns: counts.overhead_ns.load(Relaxed),
            pager_ns: counts.pager_ns.load(Relaxed),
            thawed: counts.thawed.load(Relaxed),
            unshared: counts.unshared.load(Relaxed),
            kept_shared: counts.kept_shared.load(Relaxed),
            processes: counts.processes.load(Relaxed),
            threads: threads as u64,
        }
    }
}

/// Runs the program with part of its memory remote, and returns the measurements.
///
/// # Errors
/// If the program could not be started, a pager had to end it, or its time was over ([`PagingError::OutOfTime`]). A program that fails by
/// itself is not an error: see [`RunReport::status`].
pub fn measure(job: &CheckedProgram, setup: &RunSetup) -> Result<RunReport, PagingError> {
    let session = Session::open(job, setup)?;
    let environment = vec![
        ("LD_PRELOAD", session.preloads.clone()),
        (CONTROL_VARIABLE, session.spools.path(CONTROL_NAME).into_os_string()),
        ("ASAN_OPTIONS", sanitizer_options()),
    ];
    let _reception = session.reception();
    let mut watcher = Watcher::new(&session.control, setup.nodes);
    watcher.agent_for = Some(session.spools.path(CONTROL_NAME));
    session.control.settings.start_ns.store(now_ns(), Relaxed);
    let launch = Launch {
        job,
        environment,
        output: &setup.output,
        until: setup.until,
        placeholder: setup.placeholder,
        // Fast mode excludes tracing, because each signal stops a traced thread, and fast mode handles faults and system calls by signals.
        may_be_traced: setup.calibration.mode != FaultMode::Fast,
        grace: setup.grace.unwrap_or(launch::GRACE),
        handler: session.handler(job, setup.calibration.mode)?,
    };
    let ended = launch.run(&mut watcher);
    let ended = ended.map_err(|error| with_cause(error, setup.nodes.map(|nodes| nodes.at)))?;
    let threads = session.control.next_thread.load(Relaxed);
    let mut tally = Tally::from_counts(&session.control.counts, threads);
    let local = watcher.unseen.with_counts(&session.control.counts);
    let wall_s = ended.wall.as_secs_f64();
    let mut warnings: Vec<Warning> = not_away(setup, &local, &tally, wall_s).into_iter().collect();
    if warnings.is_empty() {
        warnings.extend(local.peak(setup.local));
    }
    warnings.extend(watcher.warnings());
    warnings.extend(local.shared(setup.local));
    warnings.extend(tally.copies());
    warnings.extend(tally.short_of_memory());
    let unpaged: Vec<&str> = watcher.unpaged.iter().map(String::as_str).collect();
    warnings.extend(local::unpaged(&session.control.counts, &unpaged));
    if !ended.left_behind.is_empty() {
        let text =
            format!("processes that the command left behind were killed: {}", ended.left_behind.join(", "));
        warnings.push(Warning::new("left-behind", text));
    }
    if let Some(to) = &setup.capture {
        let found = session.capture(job, setup, to, ended.wall)?;
        tally.agree_with(&found.rows);
        warnings.extend(found.warning());
    }
    let nodes = setup.nodes.map(|nodes| nodes.at.traffic(&session.control, wall_s)).unwrap_or_default();
    Ok(RunReport { status: ended.status, wall_s, tally, local, nodes, warnings })
}

/// Returns the warning that memory which was to be remote stayed local.
fn not_away(setup: &RunSetup, local: &LocalMemory, tally: &Tally, wall_s: f64) -> Option<Warning> {
    match setup.footprint {
        Some(footprint) if tally.deactivations == 0 => local::none_taken(setup.local, footprint),
        _ => local.not_away(setup.local, wall_s),
    }
}

/// Adds the cause to an error. A pager only sees that its encrypted connection closed; this process knows the reason.
fn with_cause(error: PagingError, nodes: Option<&MemoryNodes>) -> PagingError {
    match (error, nodes.and_then(MemoryNodes::failure)) {
        (PagingError::Failed(text), Some(cause)) => PagingError::Failed(format!("{text} ({cause})")),
        (error, _) => error,
    }
}

const CONTROL_NAME: &str = "control";

/// Files of a run. Pagers write spool files next to the path of the control file. Captured spools may be large, so with a capture that path
/// is a link in a folder on disk, which points to the control file in memory.
struct Session {
    control: ControlFile,
    spools: ScratchFolder,
    preloads: OsString,
    _control_folder: Option<ScratchFolder>,
}

impl Session {
    fn open(job: &CheckedProgram, setup: &RunSetup) -> Result<Session, PagingError> {
        let fast = ScratchFolder::fast()?;
        let control = ControlFile::create(&fast.path(CONTROL_NAME), &setup.delay.samples)?;
        set(&control, setup);
        let (spools, control_folder) = match setup.capture {
            None => (fast, None),
            Some(_) => {
                let roomy = ScratchFolder::roomy()?;
                link(&fast.path(CONTROL_NAME), &roomy.path(CONTROL_NAME))?;
                (roomy, Some(fast))
            }
        };
        let preloads = preloads(&job.preload, &spools)?;
        Ok(Session { control, spools, preloads, _control_folder: control_folder })
    }

    /// Makes the handler for the stops of a program that needs the agent, or that may execute a program that needs it; `None` in fast mode.
    fn handler(&self, job: &CheckedProgram, mode: FaultMode) -> Result<Option<AnyHandler>, PagingError> {
        match (job.program.entrance, mode) {
            (_, FaultMode::Blocking) if cfg!(target_arch = "x86_64") => {
                Ok(Some(Box::new(Injector::new(&self.spools.path(CONTROL_NAME))?)))
            }
            (PagerEntry::Preload, _) => Ok(None),
            (PagerEntry::Agent, _) => Err(PagingError::Lacking(format!(
                "nothing can be preloaded into {}, which fast mode needs: leave out --fast",
                job.program.path.display()
            ))),
        }
    }

    /// Opens the reception socket for programs that need the agent and that this program will start. In fast mode too, in which such
    /// programs page in blocking mode. If the socket cannot be opened, these programs get the agent later.
    fn reception(&self) -> Option<Reception> {
        Reception::open(&self.spools.path(CONTROL_NAME)).ok()
    }

    fn capture(
        &self,
        job: &CheckedProgram,
        setup: &RunSetup,
        to: &CaptureTo,
        wall: Duration,
    ) -> Result<capture::SpoolContents, PagingError> {
        let run_ns = wall.as_nanos() as u64;
        let found = capture::read_spools(self.spools.whole(), run_ns)?;
        let command_line = job.words();
        let meta = trace::Meta {
            program: command_line[0].clone(),
            command_line,
            page_size: proc::PAGE,
            local_bytes: setup.local.get(),
            footprint_bytes: setup.footprint.unwrap_or_default().get(),
            run_ns,
            native_ns: to.native_s.map(|s| (s * 1e9) as u64),
        };
        capture::write_trace(to.path, &found.rows, &meta)?;
        Ok(found)
    }
}

fn set(control: &ControlFile, setup: &RunSetup) {
    let settings = &control.settings;
    set_link(control, setup.local, setup.delay, setup.calibration, setup.seed);
    if let Some(nodes) = setup.nodes {
        nodes.tell(settings);
    }
    settings.fast.store((setup.calibration.mode == FaultMode::Fast) as u32, Relaxed);
    settings.capture.store(setup.capture.is_some() as u32, Relaxed);
    settings.read_ahead.store(setup.read_ahead, Relaxed);
}

/// Stores the local memory limit and the delay of a fetch in the settings that pagers read.
pub(crate) fn set_link(
    control: &ControlFile,
    local: Bytes,
    delay: &FetchDelay,
    calibration: Calibration,
    seed: u64,
) {
    let settings = &control.settings;
    settings.limit_pages.store(local.get() / proc::PAGE, Relaxed);
    settings.latency_ns.store(delay.latency.as_ns(), Relaxed);
    settings.bandwidth_bps.store(delay.bandwidth.as_bps(), Relaxed);
    settings.unseen_ns.store(calibration.unseen_ns as u64, Relaxed);
    let own = std::process::id();
    let filters = proc::filters(own).unwrap_or(0) + bypass::filters();
    settings.filters.store(filters as u32, Relaxed);
    settings.copies.store(machine::copies_pages() as u32, Relaxed);
    note_headroom(control, MemoryHeadroom::of_process(own).as_ref());
    settings.seed.store(seed, Relaxed);
}

/// Stores how much memory pagers may use for copies of pages that processes share.
pub(crate) fn note_headroom(control: &ControlFile, headroom: Option<&MemoryHeadroom>) {
    // Only half of the unreserved memory may be used, because the reading is already old and others need memory too.
    let spare = |headroom: &MemoryHeadroom| headroom.bytes.saturating_sub(RESERVED) / 2 / proc::PAGE;
    let spare = headroom.map_or(u64::MAX, spare);
    control.settings.spare_pages.store(spare, Relaxed);
}

fn link(to: &Path, at: &Path) -> Result<(), PagingError> {
    std::os::unix::fs::symlink(to, at).map_err(PagingError::failed(format_args!("make {}", at.display())))
}

/// Returns the value of `LD_PRELOAD`: first Unrack's library, then those that were there. Spaces and colons separate the entries and cannot
/// be escaped, so a path that contains one is replaced by a link.
fn preloads(library: &Path, folder: &ScratchFolder) -> Result<OsString, PagingError> {
    let mut ours: PathBuf = library.into();
    if library.as_os_str().as_bytes().iter().any(|b| matches!(b, b' ' | b':' | b'\t' | b'\n')) {
        ours = folder.path(&format!("{PRELOADED}.so"));
        link(library, &ours)?;
    }
    let mut value = ours.into_os_string();
    if let Some(there) = std::env::var_os("LD_PRELOAD").filter(|there| !there.is_empty()) {
        value.push(":");
        value.push(there);
    }
    Ok(value)
}

/// Returns options for AddressSanitizer: the existing ones, and the option that it need not be the first library.
fn sanitizer_options() -> OsString {
    let mut options = std::env::var_os("ASAN_OPTIONS").filter(|set| !set.is_empty()).unwrap_or_default();
    if !options.is_empty() {
        options.push(":");
    }
    options.push("verify_asan_link_order=0");
    options
}

/// Watches a run: frees the control-file slots of processes that ended, and finds processes without a pager.
struct Watcher<'a> {
    control: &'a ControlFile,
    silence: Option<SilenceWarnings<'a>>,
    losses: Option<LossWarnings<'a>>,
    known: HashMap<u32, KnownProcess>,
    without: BTreeSet<String>,
    /// Names of processes whose pager could not start.
    unpaged: BTreeSet<String>,
    unseen: Unseen,
    /// Control file with which processes without a pager get the agent; `None` if none gets it.
    agent_for: Option<PathBuf>,
    /// Time of the next reading of the available memory.
    next_headroom: Instant,
}

/// A process, for as long as it runs the same program.
struct KnownProcess {
    executable: Option<PathBuf>,
    since: Instant,
    is_settled: bool,
    has_pager: bool,
    /// Putting the agent into the process has been tried.
    is_attached: bool,
}

impl KnownProcess {
    fn wait_for_agent(&mut self) {
        (self.is_settled, self.is_attached, self.since) = (false, true, Instant::now());
    }
}

impl<'a> Watcher<'a> {
    fn new(control: &'a ControlFile, nodes: Option<RemoteNodes<'a>>) -> Watcher<'a> {
        Watcher {
            control,
            silence: nodes.map(SilenceWarnings::new),
            losses: nodes.map(|nodes| LossWarnings::new(nodes.at)),
            known: HashMap::new(),
            without: BTreeSet::new(),
            unpaged: BTreeSet::new(),
            unseen: Unseen::default(),
            agent_for: None,
            next_headroom: Instant::now(),
        }
    }

    fn free_slots_of_the_ended(&self) {
        for slot in self.control.live_slots() {
            let pid = slot.pid.load(Relaxed);
            if proc::has_ended(pid) {
                self.control.free(slot, pid);
            }
        }
    }

    /// Checks once for each program that a process runs whether it has its pager, if it should. The check does not block: it needs only the
    /// lock of the process's memory map, which a thread that waits for a remote page does not hold.
    fn meet(&mut self, pid: u32) {
        let executable = proc::executable(pid);
        let now = Instant::now();
        let fresh = || KnownProcess {
            executable: None,
            since: now,
            is_settled: false,
            has_pager: true,
            is_attached: false,
        };
        let known = self.known.entry(pid).or_insert_with(fresh);
        if known.executable != executable {
            *known = KnownProcess { executable, ..fresh() };
        }
        if known.is_settled || known.since.elapsed() < SETTLED {
            return;
        }
        known.is_settled = true;
        if proc::maps_file(pid, PRELOADED) != Some(false) || self.has_agent(pid) {
            return;
        }
        match self.attach(pid) {
            true => {
                self.known.entry(pid).and_modify(KnownProcess::wait_for_agent);
            }
            false => {
                self.known.entry(pid).and_modify(|known| known.has_pager = false);
                self.without.extend(proc::name(pid));
            }
        }
    }

    /// Finds processes that have the library but no slot in the control file: they run with all their memory local.
    fn find_unpaged(&mut self) {
        let paged: HashSet<u32> = self.control.live_slots().map(|slot| slot.pid.load(Relaxed)).collect();
        for (pid, known) in &mut self.known {
            let is_late = known.is_settled && known.since.elapsed() >= 2 * SETTLED;
            if is_late && known.has_pager && !paged.contains(pid) && !proc::has_ended(*pid) {
                known.has_pager = false;
                self.unpaged.extend(proc::name(*pid));
            }
        }
    }

    /// Starts to put the agent into a process, in the background. Returns false if that was tried before, or is impossible.
    fn attach(&self, pid: u32) -> bool {
        let is_new = self.known.get(&pid).is_some_and(|known| !known.is_attached);
        let file = || std::fs::File::open(format!("/proc/{pid}/exe")).ok();
        let is_fit = || file().and_then(|file| elf::read(&file).ok()?.entrance()).is_some();
        match &self.agent_for {
            Some(control) => is_new && is_fit() && Injector::attach(control, pid).is_ok(),
            None => false,
        }
    }

    /// Returns whether a tracer of this process put the agent into a process. The process then has a slot, because the slot of a program
    /// that it ran before would have been freed.
    fn has_agent(&self, pid: u32) -> bool {
        let is_ours = |tracer| Path::new(&format!("/proc/self/task/{tracer}")).exists();
        proc::tracer(pid).is_some_and(is_ours)
            && self.control.live_slots().any(|slot| slot.pid.load(Relaxed) == pid)
    }

    fn warnings(&self) -> Vec<Warning> {
        let names: Vec<_> = self.without.iter().map(String::as_str).collect();
        let text = format!(
            "programs ran with all memory local, since nothing can be preloaded into them: {}",
            names.join(", ")
        );
        let warning = (!names.is_empty()).then(|| Warning::new("not-preloaded", text));
        let losses = self.losses.iter().flat_map(LossWarnings::warnings);
        warning.into_iter().chain(losses).collect()
    }
}

impl RunObserver for Watcher<'_> {
    fn pace(&self) -> Duration {
        PACE
    }

    fn is_stuck(&self) -> bool {
        self.silence.is_some()
            && self.control.live_slots().any(|slot| slot.waited_ns.load(Relaxed) >= STUCK.as_nanos() as u64)
    }

    fn look(&mut self, members: &[u32]) -> Result<(), PagingError> {
        if let Some(why) = self.control.failure() {
            let kind = if self.control.is_lacking() { PagingError::Lacking } else { PagingError::Failed };
            return Err(kind(why));
        }
        self.free_slots_of_the_ended();
        if let Some(losses) = &mut self.losses {
            losses.look(self.control);
        }
        if let Some(silence) = &mut self.silence {
            silence.look(self.control)?;
        }
        self.known.retain(|pid, _| members.contains(pid));
        members.iter().for_each(|pid| self.meet(*pid));
        self.find_unpaged();
        if self.next_headroom <= Instant::now() {
            note_headroom(
                self.control,
                members.first().and_then(|pid| MemoryHeadroom::of_process(*pid)).as_ref(),
            );
            self.next_headroom = Instant::now() + HEADROOM_PACE;
        }
        let without: Vec<u32> =
            self.known.iter().filter(|(_, known)| !known.has_pager).map(|(pid, _)| *pid).collect();
        self.unseen.look(members, &without);
        local::share_out(self.control, members);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_whose_path_cannot_be_written_gets_another_name() {
        let folder = ScratchFolder::fast().unwrap();
        let library = folder.path("lib with spaces.so");
        std::fs::write(&library, "x").unwrap();
        let value = preloads(&library, &folder).unwrap();
        let first = value.to_str().unwrap().split(':').next().unwrap().to_string();
        assert!(!first.contains(' '), "{first}");
        assert_eq!(std::fs::read_to_string(first).unwrap(), "x");
    }

    #[test]
    fn counts_are_what_was_captured_but_for_more_than_ends_explain() {
        let control = ScratchFolder::fast().unwrap();
        let control = ControlFile::create(&control.path("control"), &[]).unwrap();
        let row =
            |kind| trace::Row { t_ns: 1, thread: 0, page: 1, kind, bytes: 4096, wait_ns: 0, overhead_ns: 0 };
        let rows =
            [trace::Kind::Fetch, trace::Kind::Fetch, trace::Kind::Fetch, trace::Kind::WriteBack].map(row);
        for (fetches, processes, after) in [(3, 1, 3), (2, 1, 3), (1, 1, 1), (1, 2, 3), (4, 2, 4)] {
            let mut tally = Tally { fetches, processes, ..Tally::from_counts(&control.counts, 1) };
            tally.agree_with(&rows);
            assert_eq!((tally.fetches, tally.write_backs), (after, 1), "{fetches} with {processes}");
        }
    }

    #[test]
    fn slots_of_ended_processes_are_freed() {
        let folder = ScratchFolder::fast().unwrap();
        let control = ControlFile::create(&folder.path("control"), &[]).unwrap();
        let own = std::process::id();
        control.take_slot(own).unwrap();
        control.take_slot(0x3fff_ffff).unwrap();
        control.take_slot(u32::MAX).unwrap();
        let mut watcher = Watcher::new(&control, None);
        watcher.look(&[own]).unwrap();
        let left: Vec<_> = control.live_slots().map(|slot| slot.pid.load(Relaxed)).collect();
        assert_eq!(left, [own]);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]
        #[test]
        fn whatever_a_program_writes_there_the_watcher_stands(
            words in proptest::collection::vec(proptest::prelude::any::<u64>(), 1..64)
        ) {
            let folder = ScratchFolder::fast().unwrap();
            let path = folder.path("control");
            let control = ControlFile::create(&path, &[]).unwrap();
            let noise = words.iter().cycle().take(size_of::<unrack_pager::control::ControlHead>() / 8);
            let noise: Vec<u8> = noise.flat_map(|word| word.to_le_bytes()).collect();
            std::os::unix::fs::FileExt::write_all_at(
                &std::fs::File::options().write(true).open(&path).unwrap(), &noise, 0,
            ).unwrap();
            let nodes = MemoryNodes::new(vec!["10.0.0.2:7000".parse().unwrap()], false).unwrap();
            let nodes = RemoteNodes { at: &nodes, page_timeout: Duration::from_secs(5) };
            let mut watcher = Watcher::new(&control, Some(nodes));
            // Any result is acceptable. The test only checks that the call returns.
            let _ = watcher.look(&[std::process::id()]);
            let _ = (watcher.warnings(), Tally::from_counts(&control.counts, 1));
        }
    }

    #[test]
    fn a_pagers_failure_ends_the_run() {
        let folder = ScratchFolder::fast().unwrap();
        let control = ControlFile::create(&folder.path("control"), &[]).unwrap();
        control.fail("the node is gone");
        let why = Watcher::new(&control, None).look(&[]).unwrap_err();
        assert_eq!(why, PagingError::Failed("the node is gone".into()));
    }
}
