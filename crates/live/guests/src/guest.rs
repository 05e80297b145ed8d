//! One host of a rack: its virtual machine, running or not.

use crate::accelerator::Accelerator;
use crate::doorbell::Doorbells;
use crate::engine::Engine;
use crate::link::Link;
use crate::qemu::{Common, GuestSockets, command};
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

/// Time that a guest has to boot; emulated on a busy machine, it takes a minute.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time without a word from a guest under KVM, be it on its console or from its agent, after which it is taken to stand
/// still.
const SILENCE: Duration = Duration::from_secs(20);
/// Time that QEMU has to end once it has hung up, before it is killed.
const GRACE: Duration = Duration::from_secs(2);
const ROUND: Duration = Duration::from_millis(5);
/// Lines of a console that an error shows.
const TAIL: usize = 15;

/// A host of the rack.
pub(crate) struct Guest {
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
    /// Time for which it was silent under KVM, if it was started again under emulation for that.
    silent: Option<Duration>,
    /// Reason why it is down.
    why: String,
}

impl Now {
    fn new(state: HostState) -> Now {
        Now { state, qemu: None, link: None, boot: None, silent: None, why: String::new() }
    }
}

/// Virtual machine that runs.
struct Running {
    child: Child,
    /// Connection with the agent.
    port: UnixStream,
    /// Connection of the doorbell, of which QEMU has the other end.
    _doorbell: Option<UnixStream>,
}

impl Guest {
    /// Creates a host that is down, with its number in the rack. Its console's output goes to a file of `folder`.
    pub(crate) fn new(number: usize, host: GuestHost, folder: &Path) -> Guest {
        let console = folder.join(format!("{}{CONSOLE}", host.name));
        let now = Mutex::new(Now::new(HostState::Down));
        Guest { host, number, console, now, changed: Condvar::new() }
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

    /// Returns the connection with the agent.
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

    /// Carries out a change, and waits until it is done.
    ///
    /// # Errors
    /// [`Error::Usage`] if the host's state does not allow it; [`Error::Broken`] if it does not boot.
    pub(crate) fn change(self: &Arc<Guest>, change: HostChange, common: &Arc<Common>) -> Result<(), Error> {
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

    /// Kills the virtual machine and waits until it has ended. Returns whether there was one.
    pub(crate) fn kill(&self) -> bool {
        let mut now = self.now();
        if now.state == HostState::Down {
            return false;
        }
        now.why = "it was killed".into();
        if let Some(qemu) = now.qemu {
            // It may be ending.
            let _ = kill_process(qemu, Signal::KILL);
        }
        while now.state != HostState::Down {
            now = self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Starts the virtual machine, without waiting.
    ///
    /// # Errors
    /// If it runs already, or QEMU cannot be started.
    pub(crate) fn boot(self: &Arc<Guest>, common: &Arc<Common>) -> Result<(), Error> {
        let mut now = self.now();
        if now.state != HostState::Down {
            return Err(self.usage(&format!("is {} already", now.state.name())));
        }
        *now = Now::new(HostState::Booting);
        drop(now);
        let (guest, common) = (self.clone(), common.clone());
        // QEMU is killed when this thread ends.
        std::thread::spawn(move || guest.attend(&common));
        Ok(())
    }

    /// Waits until the host is up. Returns how long it took to boot. `emulated` is called with the time of its silence if
    /// it is started again under emulation.
    ///
    /// # Errors
    /// [`Error::Broken`] with the end of its console, if it does not get there.
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
    fn attend(&self, common: &Common) {
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

    /// Runs the virtual machine until it ends. [`ErrorKind::TimedOut`] if it stood still under KVM, and was killed.
    fn run_once(&self, common: &Common, engine: &Engine) -> std::io::Result<()> {
        let begun = Instant::now();
        let running = self.start(common, engine)?;
        self.carry(running, engine.accelerator, begun)
    }

    /// Runs a virtual machine that stood still under KVM once more, under emulation.
    fn emulate(&self, common: &Common) -> std::io::Result<()> {
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

    fn start(&self, common: &Common, engine: &Engine) -> std::io::Result<Running> {
        // Both this file and the kernel's lines in it are only appended to, by QEMU and its errors.
        let _ = std::fs::remove_file(&self.console);
        let console = File::options().create_new(true).append(true).mode(0o600).open(&self.console)?;
        let (port, theirs) = UnixStream::pair()?;
        let connect = |server: &Doorbells| server.connect(self.number);
        let (_doorbell, doorbell) = common.doorbells.as_ref().map(connect).transpose()?.unzip();
        let sockets = GuestSockets { port: theirs, doorbell };
        let mut command = command(common, engine, &self.host, &sockets);
        command.current_dir("/").stdin(Stdio::null()).stdout(console.try_clone()?).stderr(console);
        Ok(Running { child: command.spawn()?, port, _doorbell })
    }

    /// Passes frames of a virtual machine until it ends.
    fn carry(&self, running: Running, accelerator: Accelerator, begun: Instant) -> std::io::Result<()> {
        let Running { mut child, port, _doorbell } = running;
        let link = Arc::new(Link::new(port.try_clone()?));
        {
            let mut now = self.now();
            now.qemu = Some(Pid::from_child(&child));
            // Whoever killed it before has not found its process.
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
        // From here on, its process number may become another's.
        {
            let mut now = self.now();
            (now.qemu, now.link) = (None, None);
        }
        // QEMU that hangs up is about to end, with a status that says more than that it was killed.
        let hung_up = Instant::now();
        while carried.is_ok() && hung_up.elapsed() < GRACE && child.try_wait()?.is_none() {
            std::thread::sleep(ROUND);
        }
        // It may have ended by itself.
        let _ = child.kill();
        let status = child.wait()?;
        match carried {
            Err(why @ (WireError::Malformed(_) | WireError::Version(_))) => {
                Err(std::io::Error::other(why.to_string()))
            }
            _ => Err(std::io::Error::other(format!("QEMU has ended ({status})"))),
        }
    }

    /// Waits until the agent sends something, or the connection with it ends. Returns `false` if the guest is silent for
    /// [`SILENCE`] before.
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

    /// Returns the end of the console's output, as lines of an error.
    fn tail(&self) -> String {
        let bytes = std::fs::read(&self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        // What follows is the kernel's stack.
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

/// End of the names of files with consoles' output.
pub(crate) const CONSOLE: &str = ".console";
