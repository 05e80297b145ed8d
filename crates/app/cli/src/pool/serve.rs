//! `unrack pool serve`: the manager process, which owns a pool's memory.

use crate::failure::{CommandFailure, say};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use unrack_pool::cache_control::MemoryKind;
use unrack_pool::manager::doorbell::{CannotRing, Ivshmem};
use unrack_pool::manager::{self, Backing, HostOptions, signals};
use unrack_pool::{Options, socket};
use unrack_units::nearest::hint;
use unrack_units::{Bytes, Share, Time};

/// Time for which a manager that was started on demand waits for another client.
const IDLE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(super) struct Args {
    /// Socket to which programs connect [default: unrack/pool.sock in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Memory for all programs together, in sections of 2MiB; this much must be free at the start [default: that of an earlier pool
    /// that programs still use; else 1GiB, or half of the free memory if that is less]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// Maximum memory of one client: a size or a share. A client is a process with all its connections, or all
    /// processes of another user together. Half leaves room for the other side of each call [default: 50%, and at
    /// least 4MiB]
    #[arg(long, value_name = "SIZE|SHARE")]
    per_client: Option<Share>,
    /// Kind of memory: `memfd`; or, for this user alone, `huge` (memfd of 2MiB pages) or a folder on tmpfs or
    /// hugetlbfs; or devices such as /dev/dax0.0, separated by commas, all of which every client can reach
    #[arg(long, value_name = "KIND|PATHS", default_value = "memfd")]
    backing: String,
    /// Devices that hosts share, separated by commas, as `unrack pool format` formatted them
    #[arg(long, value_name = "PATHS", requires = "host",
          conflicts_with_all = ["backing", "capacity", "interleave", "memory", "queue"])]
    device: Option<String>,
    /// Number of this host; each kernel that shares the devices needs a different one
    #[arg(long, value_name = "N", requires = "device")]
    host: Option<u32>,
    /// Name of this host, for people who look [default: the kernel's]
    #[arg(long, value_name = "NAME", requires = "device")]
    host_name: Option<String>,
    /// Time without a heartbeat of another host after which calls to it end [default: 3s]
    #[arg(long, value_name = "TIME", requires = "device")]
    silence: Option<Time>,
    /// Doorbell by which hosts wake each other's programs: the folder in /sys/bus/pci/devices of an ivshmem-doorbell that is bound
    /// to vfio-pci, or a link to it [default: programs look for each other by themselves]
    #[arg(long, value_name = "PATH", requires = "device")]
    doorbell: Option<PathBuf>,
    /// Bytes placed on one of several devices before the next
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    interleave: Bytes,
    /// Access to the memory: coherent, incoherent (lines are flushed), uncached, or model (for tests)
    #[arg(long, value_name = "MODE", default_value = "coherent", value_parser = mode)]
    memory: MemoryKind,
    /// Maximum of sections leased at a time for small buffers (K)
    #[arg(long, value_name = "SECTIONS", default_value_t = 16)]
    region: u32,
    /// Bytes of the queue area of each pair of programs
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    queue: Bytes,
    /// Users who may connect: permission bits of the socket, in octal (600 this user, 660 its group, 666 all)
    #[arg(long, value_name = "BITS", default_value = "600", value_parser = permissions)]
    permissions: u32,
    /// End when no program has been connected for 10 s
    #[arg(long)]
    until_idle: bool,
    /// Print the socket where it listens as one JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// Status line of `--json`.
#[derive(Serialize)]
struct PoolStatusLine<'a> {
    socket: String,
    capacity_bytes: u64,
    per_client_bytes: u64,
    backing: String,
    mode: MemoryKind,
    pid: u32,
    version: &'a str,
}

/// Runs `unrack pool serve`.
pub(super) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let place = SocketFolder::new(args.socket.clone())?;
    serve(args, &place.socket).inspect_err(|_| place.clear())
}

/// Socket of a pool, and whether the folder of the socket was created for it.
struct SocketFolder {
    socket: PathBuf,
    /// True if the folder was created for the socket.
    made: bool,
}

impl SocketFolder {
    fn new(socket: Option<PathBuf>) -> Result<SocketFolder, CommandFailure> {
        if let Some(socket) = socket {
            return Ok(SocketFolder { socket, made: false });
        }
        let socket = socket::default_socket();
        let cannot = |error| {
            CommandFailure::Lacking(format!("cannot listen at {}: {error}; give --socket", socket.display()))
        };
        let made = socket::make_folder(&socket).map_err(cannot)?;
        Ok(SocketFolder { socket, made })
    }

    /// Removes the folder, if it was created for the socket.
    fn clear(&self) {
        if let Some(folder) = self.socket.parent().filter(|_| self.made) {
            // If another manager serves in the folder by now, the folder is not empty, so this call fails and the folder stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn serve(args: Args, socket: &Path) -> Result<ExitCode, CommandFailure> {
    let mut options = match (&args.device, args.host) {
        (Some(devices), Some(host)) => of_host(&args, socket, devices, host)?,
        _ => of_machine(&args, socket)?,
    };
    options.per_client = args.per_client;
    options.region_sections = args.region;
    options.permissions = args.permissions;
    options.idle = args.until_idle.then_some(IDLE);
    signals::serve(&options, || tell_start(&options, args.json))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the options of a pool that only this machine uses.
fn of_machine(args: &Args, socket: &Path) -> Result<Options, CommandFailure> {
    let before = || manager::capacity_before(socket).map(Bytes::new);
    let capacity = args.capacity.or_else(before).unwrap_or_else(manager::default_capacity);
    let mut options = Options::new(socket, capacity);
    options.backing = backing(&args.backing, args.interleave)?;
    options.mode = args.memory;
    options.queue_bytes = args.queue;
    Ok(options)
}

/// Returns the options of one host of a pool that several hosts share.
fn of_host(args: &Args, socket: &Path, devices: &str, host: u32) -> Result<Options, CommandFailure> {
    let mut place = HostOptions::new(host);
    if let Some(name) = &args.host_name {
        place.name.clone_from(name);
    }
    if let Some(silence) = args.silence {
        place.silence = Duration::from_nanos(silence.as_ns());
    }
    let devices = paths(devices);
    if let Some(path) = &args.doorbell {
        let opened = Ivshmem::open(path, &devices).map_err(|why| {
            let text = format!("--doorbell {}: {why}", path.display());
            match why {
                CannotRing::NotOne | CannotRing::HasMemory(_) => CommandFailure::Usage(text),
                CannotRing::Unbound { .. } | CannotRing::Device { .. } => CommandFailure::Lacking(text),
            }
        })?;
        place.doorbell = Some(Arc::new(opened));
    }
    Ok(Options::for_host(socket, devices, place)?)
}

fn tell_start(options: &Options, json: bool) {
    let (socket, backing) = (options.socket.display().to_string(), options.backing.to_string());
    if !json {
        return say(&format!("pool at {socket}: {} of {backing}, {}", options.capacity, options.mode));
    }
    let status = PoolStatusLine {
        socket,
        capacity_bytes: options.capacity.get(),
        // The options were checked before the manager was started, so there is no error here.
        per_client_bytes: options.quota_bytes().unwrap_or_default(),
        backing,
        mode: options.mode,
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION"),
    };
    // Serializing plain numbers and text cannot fail. If stdout is closed, the line is lost.
    let line = serde_json::to_string(&status).unwrap_or_default();
    let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{line}\n").as_bytes());
}

fn backing(text: &str, interleave: Bytes) -> Result<Backing, CommandFailure> {
    let paths = paths(text);
    match text {
        "memfd" => Ok(Backing::Memfd { huge: false }),
        "huge" => Ok(Backing::Memfd { huge: true }),
        _ if !text.contains('/') => Err(CommandFailure::Usage(format!(
            "--backing {text}: give a path, with a slash in it, or a kind of memory{}",
            hint(text, &["memfd", "huge"])
        ))),
        _ => match &paths[..] {
            [folder] if folder.is_dir() || !folder.exists() => Ok(Backing::Directory(folder.clone())),
            _ => Ok(Backing::Devices { paths, granularity: interleave.get() }),
        },
    }
}

/// Returns paths that are separated by commas.
pub(super) fn paths(text: &str) -> Vec<PathBuf> {
    text.split(',').map(PathBuf::from).collect()
}

pub(super) fn mode(text: &str) -> Result<MemoryKind, String> {
    text.parse().map_err(|error: unrack_pool::cache_control::UnknownMode| error.to_string())
}

fn permissions(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(bits) if bits <= 0o777 && bits & 0o600 == 0o600 => Ok(bits),
        _ => Err("give three octal digits, such as 600 or 660".into()),
    }
}
