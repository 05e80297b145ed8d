//! Measures the time of a call between two processes on two cores.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A library or mechanism with which one process calls another.
pub trait Peer {
    fn name(&self) -> &'static str;

    /// Whether a call can carry `size` bytes.
    fn takes(&self, _size: usize) -> bool {
        true
    }

    /// Runs the server. It returns, or its process is killed, when the client has finished.
    fn serve(&self, place: &Place, size: usize) -> io::Result<()>;

    /// Connects to the server, and passes a closure that makes one call to `timed`.
    fn client(&self, place: &Place, size: usize, timed: &mut Timed) -> io::Result<()>;

    /// Like [`Peer::client`], with a window of 16: the closure starts one call, then completes one of the 17 calls in flight.
    fn windowed(&self, _place: &Place, _size: usize, _timed: &mut Timed) -> io::Result<()> {
        Ok(())
    }

    /// Whether the peer supports several calls in flight.
    fn has_window(&self) -> bool {
        false
    }
}

/// Place where client and server meet: a folder for sockets, and memory that both processes map.
pub struct Place {
    pub folder: PathBuf,
    memory: OwnedFd,
}

/// Size of the shared memory in bytes: enough for two rings with a few slots of 2 MiB, or with more slots that are smaller.
pub const SHARED: usize = 32 << 20;

impl Place {
    fn new() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("unrack-rpc-peers-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        // SAFETY: a plain system call with a name that ends in a zero byte.
        let fd = unsafe { libc::memfd_create(c"unrack-rpc-peers".as_ptr(), 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and no other object owns it.
        let memory = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a plain system call on the descriptor that `memory` owns.
        if unsafe { libc::ftruncate(fd, SHARED as i64) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { folder, memory })
    }

    /// Empties the folder, and returns a place with the same folder and new memory.
    fn anew(&self) -> io::Result<Self> {
        std::fs::remove_dir_all(&self.folder)?;
        Self::new()
    }

    /// Maps the shared memory, which is zeroed when the place is new. It stays mapped until the process ends.
    pub fn map(&self) -> io::Result<*mut u8> {
        // SAFETY: a new mapping, of a size that the file has.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SHARED,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                self.memory.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base.cast()) }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn path_to_socket_exists(&self) -> bool {
        self.socket().exists()
    }
}

/// The server's part of a measurement, as its command line describes it.
pub struct Served {
    peer: String,
    size: usize,
    folder: PathBuf,
    memory: i32,
}

const SERVE: &str = "__serve";

impl Served {
    pub fn from_arguments() -> Option<Self> {
        let mut arguments = std::env::args().skip(1);
        (arguments.next()? == SERVE).then_some(())?;
        Some(Self {
            peer: arguments.next()?,
            size: arguments.next()?.parse().ok()?,
            folder: arguments.next()?.into(),
            memory: arguments.next()?.parse().ok()?,
        })
    }
}

pub fn serve(peers: &[Box<dyn Peer>], role: Served) -> ExitCode {
    end_with_parent();
    pin(1);
    // SAFETY: the descriptor was inherited for this purpose; no other object in this process owns it.
    let memory = unsafe { OwnedFd::from_raw_fd(role.memory) };
    let place = Place { folder: role.folder, memory };
    let peer = peers.iter().find(|peer| peer.name() == role.peer).expect("the client names a peer");
    match peer.serve(&place, role.size) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("unrack-rpc-peers: server of {}: {wrong}", peer.name());
            ExitCode::FAILURE
        }
    }
}

/// Makes the kernel kill this server when the client ends, even if the client is killed.
fn end_with_parent() {
    // SAFETY: plain system call, no memory involved.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Result of one measurement of one peer.
#[derive(Clone, Copy)]
pub struct Measured {
    pub p50_ns: f64,
    pub p99_ns: f64,
    pub window_16_calls_per_s: Option<f64>,
}

/// Calls a closure that makes calls for a bounded time, and records the durations.
pub struct Timed {
    ns_per_tick: f64,
    /// Ticks of each call.
    laps: Vec<u32>,
    /// Ticks of each batch of calls. Other work on the machine slows down some batches; their median is not affected by that.
    batches: Vec<u32>,
}

const BATCH: usize = 64;

const LONGEST: Duration = Duration::from_millis(120);
const WARM_UP: u32 = 200;
const MOST_LAPS: usize = 400_000;

impl Timed {
    fn new() -> Self {
        Self {
            ns_per_tick: ns_per_tick(),
            laps: Vec::with_capacity(MOST_LAPS),
            batches: Vec::with_capacity(MOST_LAPS / BATCH),
        }
    }

    /// Makes calls until the time limit, and records the time of each.
    pub fn run(&mut self, mut call: impl FnMut()) {
        Self::warm_up(&mut call);
        let begun = Instant::now();
        while self.laps.len() < MOST_LAPS && begun.elapsed() < LONGEST {
            let mut before = ticks();
            for _ in 0..BATCH {
                call();
                let now = ticks();
                self.laps.push((now - before).min(u64::from(u32::MAX)) as u32);
                before = now;
                if now & 0x3f == 0 && begun.elapsed() > LONGEST {
                    break;
                }
            }
        }
    }

    /// Makes calls until the time limit, and records the time of each batch of 64.
    pub fn run_windowed(&mut self, mut call: impl FnMut()) {
        Self::warm_up(&mut call);
        let begun = Instant::now();
        while self.batches.len() < MOST_LAPS && begun.elapsed() < LONGEST {
            let before = ticks();
            for _ in 0..BATCH {
                call();
            }
            self.batches.push((ticks() - before).min(u64::from(u32::MAX)) as u32);
        }
    }

    fn warm_up(call: &mut impl FnMut()) {
        let begun = Instant::now();
        for _ in 0..WARM_UP {
            call();
            if begun.elapsed() > LONGEST / 4 {
                break;
            }
        }
    }

    fn quantile_ns(&mut self, quantile: f64) -> f64 {
        self.laps.sort_unstable();
        let index = ((self.laps.len() - 1) as f64 * quantile) as usize;
        f64::from(self.laps[index]) * self.ns_per_tick
    }

    /// Returns the calls per second, computed from the median of the batches.
    fn calls_per_s(&mut self) -> f64 {
        self.batches.sort_unstable();
        let ticks = f64::from(self.batches[self.batches.len() / 2]);
        BATCH as f64 * 1e9 / (ticks * self.ns_per_tick)
    }
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn ns_per_tick() -> f64 {
    let (begun, first) = (Instant::now(), ticks());
    std::thread::sleep(Duration::from_millis(20));
    begun.elapsed().as_nanos() as f64 / (ticks() - first) as f64
}

pub fn measure(peer: &dyn Peer, size: usize) -> io::Result<Measured> {
    let place = Place::new()?;
    let done = measure_at(peer, size, &place);
    std::fs::remove_dir_all(&place.folder)?;
    done
}

fn measure_at(peer: &dyn Peer, size: usize, place: &Place) -> io::Result<Measured> {
    pin(0);
    let server = Server::start(peer, size, place)?;
    let mut timed = Timed::new();
    peer.client(place, size, &mut timed)?;
    let mut measured = Measured {
        p50_ns: timed.quantile_ns(0.5),
        p99_ns: timed.quantile_ns(0.99),
        window_16_calls_per_s: None,
    };
    drop(server);
    if peer.has_window() {
        // Use a new server and new memory, so that the earlier calls have no effect.
        let place = place.anew()?;
        let _server = Server::start(peer, size, &place)?;
        let mut timed = Timed::new();
        peer.windowed(&place, size, &mut timed)?;
        measured.window_16_calls_per_s = Some(timed.calls_per_s());
    }
    Ok(measured)
}

/// A server's process. Dropping it sends SIGTERM first, so that the server can clean up, and kills the process after a second.
struct Server(Child);

impl Server {
    fn start(peer: &dyn Peer, size: usize, place: &Place) -> io::Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .arg(SERVE)
            .args([peer.name(), &size.to_string()])
            .arg(&place.folder)
            .arg(place.memory.as_raw_fd().to_string())
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: the signal goes to a child of this process that has not been waited for, so its number is still valid.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let asked = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if asked.elapsed() > Duration::from_secs(1) {
                let _ = self.0.kill();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Repeats an attempt to connect until it succeeds or five seconds have passed.
pub fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(_) if begun.elapsed() < Duration::from_secs(5) => {
                std::thread::sleep(Duration::from_millis(1))
            }
            other => return other,
        }
    }
}

pub fn wait_for_socket(place: &Place) -> io::Result<PathBuf> {
    patiently(|| {
        if place.path_to_socket_exists() { Ok(place.socket()) } else { Err(io::ErrorKind::NotFound.into()) }
    })
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn pin(core: usize) {
    // SAFETY: the set is plain bits, of the size that is passed.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set);
    }
}

/// The measurements of one peer at one size, one per round.
pub struct Cell {
    pub peer: &'static str,
    pub size: usize,
    rounds: Vec<Measured>,
}

impl Cell {
    pub fn add(cells: &mut Vec<Self>, peer: &'static str, size: usize, measured: Measured) {
        match cells.iter_mut().find(|cell| cell.peer == peer && cell.size == size) {
            Some(cell) => cell.rounds.push(measured),
            None => cells.push(Self { peer, size, rounds: vec![measured] }),
        }
    }

    /// Returns the median over the rounds of the value that `figure` selects from a measurement.
    pub fn median(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        let mut values: Vec<f64> = self.rounds.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    pub fn windowed(&self) -> Option<f64> {
        self.rounds[0].window_16_calls_per_s?;
        Some(self.median(|round| round.window_16_calls_per_s.unwrap_or(0.0)))
    }
}

/// Returns the name of a folder as text. The folders of this program always have names in UTF-8.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary folder with a name in UTF-8")
}
