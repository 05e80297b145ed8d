//! One host of a rack, with its virtual machine, which may be running or not.

use crate::accelerator::Accelerator;
use crate::doorbell::Doorbells;
use crate::engine::GuestEngine;
use crate::link::Link;
use crate::qemu::{GuestFiles, GuestSockets, command};
use crate::request::{HostChange, HostState, HostStatus};
use crate::scenario::GuestHost;
use crate::wire::WireError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use unrack_live::Error;

/// Time within which a guest has to boot. An emulated guest on a busy machine takes a minute.
const PATIENCE: Duration = Duration::from_secs(300);
/// Longest time without output from a guest under KVM, on its console or from its agent. Afterwards the guest is considered hung.
const SILENCE: Duration = Duration::from_secs(20);
/// Time within which QEMU has to end after it has closed its connection. Afterwards it is killed.
const GRACE: Duration = Duration::from_secs(2);
const ROUND: Duration = Duration::from_millis(5);
/// Number of console lines that an error shows.
const TAIL: usize = 15;

/// A host of the rack.
pub(crate) struct RackGuest {
    pub(crate) host: GuestHost,
    number: usize,
    console: PathBuf,
    now: Mutex<Now>,
    changed: Condvar,
}

/// State of a host's virtual machine.
struct Now {
    state: HostState,
    qemu: Option<Pid>,
    link: Option<Arc<Link>>,
    boot: Option<Duration>,
    /// How long the guest was silent under KVM, if it was started again under emulation because of that.
    silent: Option<Duration>,
    /// Reason why the host is down.
    why: String,
}

impl Now {
    fn new(state: HostState) -> Now {
        Now { state, qemu: None, link: None, boot: None, silent: None, why: String::new() }
    }
}

/// Running virtual machine.
struct RunningGuest {
    child: Child,
    /// Connection to the agent.
    port: UnixStream,
    /// Server's end of the doorbell's connection. QEMU has the other end.
    _doorbell: Option<UnixStream>,
}

impl RackGuest {
    /// Creates a host that is down. `number` is its number in the rack. The output of its console goes to a file in `folder`.
    pub(crate) fn new(number: usize, host: GuestHost, folder: &Path) -> RackGuest {
        let console = folder.join(format!("{}{CONSOLE}", host.name));
        let now = Mutex::new(Now::new(HostState::Down));
        RackGuest { host, number, console, now, changed: Condvar::new() }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of the host.
    pub(crate) fn status(&self) -> HostStatus {
        let now = self.now();
        HostStatus {
            name: self.host.name.clone(),
            state: now.state,
            pid: now.qemu.map(|qemu| qemu.as_raw_nonzero().get()),
            memory_bytes: self.host.memory.get(),
            cpus: self.host.cpus,
            boot_s: now.boot.map(|boot| boot.as_secs_f64()),
            console: self.console.display().to_string(),
        }
    }

    /// Returns the connection to the agent.
    ///
    /// # Errors
    /// [`Error::Usage`] unless the host is up or stopped.
    pub(crate) fn link(&self) -> Result<Arc<Link>, Error> {
        let now = self.now();
        match (now.state, &now.link) {
            (HostState::Up | HostState::Stopped, Some(link)) => Ok(link.clone()),
            (HostState::Booting, _) => Err(self.usage("is booting: wait until it is up")),
            _ => Err(self.usage("is down: `unrack rack boot` boots it")),
        }
    }

    /// Executes a change, and waits until it is done.
    ///
    /// # Errors
    /// [`Error::Usage`] if the host's state does not allow the change; [`Error::Broken`] if the host does not boot.
    pub(crate) fn change(
        self: &Arc<RackGuest>,
        change: HostChange,
        common: &Arc<GuestFiles>,
    ) -> Result<(), Error> {
        match change {
            HostChange::Boot => {
                self.boot(common)?;
                self.wait_until_up(|_| ()).map(drop)
            }
            HostChange::Kill => {
                let was_up = self.kill();
                if was_up { Ok(()) } else { Err(self.usage("is down already")) }
            }
            HostChange::Stop => self.signal(HostState::Up, HostState::Stopped, Signal::STOP),
            HostChange::Cont => self.signal(HostState::Stopped, HostState::Up, Signal::CONT),
        }
    }

    fn signal(&self, from: HostState, to: HostState, signal: Signal) -> Result<(), Error> {
        let mut now = self.now();
        match now.qemu {
            Some(qemu) if now.state == from => {
                kill_process(qemu, signal).map_err(|why| self.broken(&why.to_string()))?;
                now.state = to;
                Ok(())
            }
            _ => Err(self.usage(&format!("is {}, not {}", now.state.name(), from.name()))),
        }
    }

    /// Kills the virtual machine and waits until it has ended. Returns whether it was running.
    pub(crate) fn kill(&self) -> bool {
        let mut now = self.now();
        if now.state == HostState::Down {
            return false;
        }
        now.why = "it was killed".into();
        if let Some(qemu) = now.qemu {
            // Ignore errors, because the process may be ending.
            let _ = kill_process(qemu, Signal::KILL);
        }
        while now.state != HostState::Down {
            now = self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Starts the virtual machine without waiting for it.
    ///
    /// # Errors
    /// Fails if the virtual machine is running already.
    pub(crate) fn boot(self: &Arc<RackGuest>, common: &Arc<GuestFiles>) -> Result<(), Error> {
        let mut now = self.now();
        if now.state != HostState::Down {
            return Err(self.usage(&format!("is {} already", now.state.name())));
        }
        *now = Now::new(HostState::Booting);
        drop(now);
        let (guest, common) = (self.clone(), common.clone());
        // This thread lives as long as QEMU, because QEMU is killed when the thread that started it ends.
        std::thread::spawn(move || guest.attend(&common));
        Ok(())
    }

    /// Waits until the host is up. Returns how long it took to boot. If the guest was silent under KVM and is started again under
    /// emulation, `emulated` is called with the time of silence.
    ///
    /// # Errors
    /// [`Error::Broken`] with the last lines of the console, if the host does not come up.
    pub(crate) fn wait_until_up(&self, mut emulated: impl FnMut(Duration)) -> Result<Duration, Error> {
        let begun = Instant::now();
        let mut now = self.now();
        while now.state == HostState::Booting {
            now.silent.take().into_iter().for_each(&mut emulated);
            if begun.elapsed() > PATIENCE {
                drop(now);
                self.kill();
                let why = format!("did not boot in {} s", PATIENCE.as_secs());
                return Err(self.broken(&format!("{why}{}", self.tail())));
            }
            let waited = self.changed.wait_timeout(now, Duration::from_secs(1));
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        now.silent.take().into_iter().for_each(emulated);
        match now.boot {
            Some(boot) if now.state != HostState::Down => Ok(boot),
            _ => Err(self.broken(&format!("did not boot: {}{}", now.why, self.tail()))),
        }
    }

    /// Runs the virtual machine from its start to its end.
    fn attend(&self, common: &GuestFiles) {
        let ended = self.run_once(common, &common.engines.now());
        let ended = match ended {
            Err(why) if why.kind() == ErrorKind::TimedOut => self.emulate(common),
            ended => ended,
        };
        let mut now = self.now();
        if now.why.is_empty() {
            now.why = ended.err().map_or_else(|| "it has ended".into(), |why| why.to_string());
        }
        (now.state, now.qemu) = (HostState::Down, None);
        self.changed.notify_all();
    }

    /// Runs the virtual machine until it ends. Returns [`ErrorKind::TimedOut`] if the guest hung under KVM and was killed.
    fn run_once(&self, common: &GuestFiles, engine: &GuestEngine) -> std::io::Result<()> {
        let begun = Instant::now();
        let running = self.start(common, engine)?;
        self.carry(running, engine.accelerator, begun)
    }

    /// Runs a virtual machine that hung under KVM again, under emulation.
    fn emulate(&self, common: &GuestFiles) -> std::io::Result<()> {
        common.engines.emulate().map_err(std::io::Error::other)?;
        {
            let mut now = self.now();
            if !now.why.is_empty() {
                return Ok(());
            }
            now.silent = Some(SILENCE);
            self.changed.notify_all();
        }
        self.run_once(common, &common.engines.now())
    }

    fn start(&self, common: &GuestFiles, engine: &GuestEngine) -> std::io::Result<RunningGuest> {
        // Open the console file for appending, because QEMU writes the kernel's lines and its own errors to it independently.
        let _ = std::fs::remove_file(&self.console);
        let console = File::options().create_new(true).append(true).mode(0o600).open(&self.console)?;
        let (port, theirs) = UnixStream::pair()?;
        let connect = |server: &Doorbells| server.connect(self.number);
        let (_doorbell, doorbell) = common.doorbells.as_ref().map(connect).transpose()?.unzip();
        let sockets = GuestSockets { port: theirs, doorbell };
        let mut command = command(common, engine, &self.host, &sockets);
        command.current_dir("/").stdin(Stdio::null()).stdout(console.try_clone()?).stderr(console);
        Ok(RunningGuest { child: command.spawn()?, port, _doorbell })
    }

    /// Passes frames of a virtual machine until it ends.
    fn carry(&self, running: RunningGuest, accelerator: Accelerator, begun: Instant) -> std::io::Result<()> {
        let RunningGuest { mut child, port, _doorbell } = running;
        let link = Arc::new(Link::new(port.try_clone()?));
        {
            let mut now = self.now();
            now.qemu = Some(Pid::from_child(&child));
            // If `kill` was called before the process number was known, it could not kill the process, so kill it now.
            if !now.why.is_empty() {
                let _ = child.kill();
            }
        }
        if accelerator == Accelerator::Kvm && !self.speaks(&port) {
            self.now().qemu = None;
            child.kill()?;
            child.wait()?;
            return Err(ErrorKind::TimedOut.into());
        }
        let mut reader = BufReader::new(port);
        let mut carried = link.greet(&mut reader);
        if carried.is_ok() {
            let mut now = self.now();
            (now.state, now.boot, now.link) = (HostState::Up, Some(begun.elapsed()), Some(link.clone()));
            self.changed.notify_all();
            drop(now);
            carried = link.carry(&mut reader);
        }
        if let Err(WireError::Io(why)) = &carried
            && why.kind() == ErrorKind::UnexpectedEof
        {
            carried = Ok(());
        }
        link.close();
        // The process number must not be used from here on, because it may be reused.
        {
            let mut now = self.now();
            (now.qemu, now.link) = (None, None);
        }
        // A QEMU that closed its connection is about to end. Wait for its own exit status, which says more than a status after a kill.
        let hung_up = Instant::now();
        while carried.is_ok() && hung_up.elapsed() < GRACE && child.try_wait()?.is_none() {
            std::thread::sleep(ROUND);
        }
        // Ignore errors, because QEMU may have ended itself.
        let _ = child.kill();
        let status = child.wait()?;
        match carried {
            Err(why @ (WireError::Malformed(_) | WireError::Version(_))) => {
                Err(std::io::Error::other(why.to_string()))
            }
            _ => Err(std::io::Error::other(format!("QEMU has ended ({status})"))),
        }
    }

    /// Waits until the agent sends data, or the connection to it ends. Returns `false` if the guest is silent for [`SILENCE`] before that.
    fn speaks(&self, port: &UnixStream) -> bool {
        let printed = || std::fs::metadata(&self.console).map_or(0, |console| console.len());
        let (mut before, mut since) = (printed(), Instant::now());
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        while since.elapsed() < SILENCE {
            if poll(&mut [PollFd::new(port, PollFlags::IN)], Some(&second)).is_ok_and(|ready| ready > 0) {
                return true;
            }
            let now = printed();
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
        false
    }

    /// Returns the last lines of the console, formatted for an error.
    fn tail(&self) -> String {
        let bytes = std::fs::read(&self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        // Cut after the panic, because the kernel's stack follows.
        let is_panic = |line: &&str| line.contains("Kernel panic");
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let end = lines.iter().position(is_panic).map_or(lines.len(), |panic| panic + 1);
        let lines = &lines[..end];
        let printable = |line: &str| line.chars().filter(|c| !c.is_control()).take(200).collect::<String>();
        let lines =
            lines[lines.len().saturating_sub(TAIL)..].iter().map(|line| format!("\n  {}", printable(line)));
        let lines: String = lines.collect();
        if lines.is_empty() { lines } else { format!("; the end of its console:{lines}") }
    }

    fn usage(&self, what: &str) -> Error {
        Error::Usage(format!("host `{}` {what}", self.host.name))
    }

    fn broken(&self, what: &str) -> Error {
        Error::Broken(format!("host `{}` {what}", self.host.name))
    }
}

/// Suffix of the names of files with console output.
pub(crate) const CONSOLE: &str = ".console";
