//! Process of a rack: it is the parent of every QEMU, and passes frames between the callers of programs and the agents.

use crate::accelerator::Accelerator;
use crate::doorbell::Doorbells;
use crate::engine::Engines;
use crate::guest::RackGuest;
use crate::initramfs::{self, DEVICE};
use crate::kernel::InstalledKernel;
use crate::machine::{QEMU, check_machine};
use crate::memory;
use crate::qemu::GuestFiles;
use crate::rack_state::GuestRackState;
use crate::request::{DeviceStatus, HostState, RackStatus, Reply, Request};
use crate::scenario::DeviceKind;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use unrack_live::Error;

/// Step of building a rack.
#[derive(Debug, Clone, PartialEq)]
pub enum BootStep {
    /// The kernel and the accelerator are chosen, and the guests boot.
    Booting { kernel: String, accelerator: Accelerator },
    /// A host hung under KVM and is started again under emulation, which all guests use from now on.
    Emulated { host: String, silent: Duration },
    /// A host is up.
    Up { host: String, seconds: f64 },
    /// End of the boot: all hosts are up.
    Ready,
}

/// Interval at which the process checks that its folder exists.
const LOOK_AFTER: Duration = Duration::from_secs(5);
/// Longest request, in bytes.
const MOST_REQUEST: u64 = 64 << 10;

struct Keeper {
    common: Arc<GuestFiles>,
    guests: Vec<Arc<RackGuest>>,
}

/// Runs the rack of this folder until a request ends it or its folder is removed. The guests start `agent`. `tell` is called at each step,
/// and returns whether its caller still waits for the rack; otherwise the rack is removed.
///
/// # Errors
/// [`Error::Lacking`] if the machine cannot run guests; [`Error::Broken`] if a guest does not boot.
pub fn serve(folder: &Path, agent: &Path, mut tell: impl FnMut(BootStep) -> bool) -> Result<(), Error> {
    let Some(rack_state) = GuestRackState::find(folder)? else {
        return Err(Error::Usage(format!("no rack was claimed in {}", folder.display())));
    };
    let rack = rack_state.scenario()?;
    check_machine()?;
    let kernel = InstalledKernel::find()?;
    let version = kernel.version.clone();
    let accelerator = Accelerator::choose(QEMU)?;
    let has_doorbells = rack.device.kind == DeviceKind::IvshmemDoorbell;
    let doorbells = has_doorbells.then(|| Doorbells::new(rack.host.len())).transpose()?;
    let common = GuestFiles {
        initramfs: memory::file("unrack-initramfs", &initramfs::build(&kernel, rack.device.kind, agent)?)?,
        engines: Engines::new(accelerator, kernel)?,
        device: rack.device,
        memory: memory::device(&rack.device)?,
        doorbells,
    };
    let guests =
        (0..).zip(rack.host).map(|(number, host)| Arc::new(RackGuest::new(number, host, folder))).collect();
    let keeper = Arc::new(Keeper { common: Arc::new(common), guests });
    let (leave, left) = channel();
    let listener = rack_state.listen()?;
    let answering = keeper.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (keeper, leave) = (answering.clone(), leave.clone());
            std::thread::spawn(move || keeper.answer(stream, &leave));
        }
    });
    let is_awaited = tell(BootStep::Booting { kernel: version, accelerator });
    let built = keeper.boot(is_awaited, &mut tell);
    if let Ok(true) = built {
        // If a user removes the folder, no request can reach the rack any more, so the rack ends.
        while left.recv_timeout(LOOK_AFTER).is_err() && rack_state.is_there() {}
    }
    keeper.guests.iter().for_each(|guest| _ = guest.kill());
    match built {
        Ok(false) => rack_state.remove(),
        built => built.map(drop),
    }
}

impl Keeper {
    /// Boots all hosts at the same time. Returns whether the caller still waits for them.
    fn boot(&self, is_awaited: bool, tell: &mut impl FnMut(BootStep) -> bool) -> Result<bool, Error> {
        if !is_awaited {
            return Ok(false);
        }
        self.guests.iter().try_for_each(|guest| guest.boot(&self.common))?;
        for guest in &self.guests {
            let host = &guest.host.name;
            // The result is ignored here, because the next step checks again whether the caller still waits.
            let emulated = |silent| _ = tell(BootStep::Emulated { host: host.clone(), silent });
            let seconds = guest.wait_until_up(emulated)?.as_secs_f64();
            if !tell(BootStep::Up { host: host.clone(), seconds }) {
                return Ok(false);
            }
        }
        Ok(tell(BootStep::Ready))
    }

    /// Answers one request. After a request to run a program, it then carries the program's frames.
    fn answer(&self, stream: UnixStream, leave: &Sender<()>) {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        if stream.by_ref().take(MOST_REQUEST).read_line(&mut line).is_err() {
            return;
        }
        let mut link = None;
        let replied = match serde_json::from_str(&line) {
            Err(why) => Err(Error::Usage(format!("not a request: {why}"))),
            Ok(Request::List) => Ok(Reply::Hosts(Box::new(self.status()))),
            Ok(Request::Exec { host }) => self.find(&host).and_then(|guest| guest.link()).map(|found| {
                link = Some(found);
                Reply::Done
            }),
            Ok(Request::Change { host, change }) => {
                self.find(&host).and_then(|guest| guest.change(change, &self.common)).map(|()| Reply::Done)
            }
            Ok(Request::Leave) => {
                // Ignore errors, because the rack may be leaving already. Kill booting hosts, because they would delay the end.
                let booting = |guest: &&Arc<RackGuest>| guest.status().state == HostState::Booting;
                let _ = leave.send(());
                self.guests.iter().filter(booting).for_each(|guest| _ = guest.kill());
                return;
            }
        };
        let reply = replied.unwrap_or_else(|why| match why {
            Error::Usage(why) => Reply::Refused(why),
            why => Reply::Failed(why.to_string()),
        });
        let Ok(line) = serde_json::to_string(&reply) else { return };
        // Ignore errors, because the process that asked may be gone.
        if stream.get_mut().write_all((line + "\n").as_bytes()).is_ok()
            && let Some(link) = link
        {
            link.attach(stream);
        }
    }

    /// Finds a host by its name or number.
    fn find(&self, host: &str) -> Result<&Arc<RackGuest>, Error> {
        let by_name = self.guests.iter().find(|guest| guest.host.name == host);
        let by_number = || host.parse().ok().and_then(|number: usize| self.guests.get(number));
        by_name.or_else(by_number).ok_or_else(|| {
            let names: Vec<&str> = self.guests.iter().map(|guest| guest.host.name.as_str()).collect();
            let near = unrack_units::nearest::hint(host, &names);
            Error::Usage(format!("there is no host `{host}`{near}"))
        })
    }

    fn status(&self) -> RackStatus {
        let GuestFiles { engines, device, memory, .. } = &*self.common;
        let device = DeviceStatus {
            kind: device.kind,
            bytes: device.bytes.get(),
            path: DEVICE.into(),
            file: format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd()),
            file_offset: device.data_offset(),
        };
        RackStatus {
            accelerator: engines.now().accelerator,
            device,
            hosts: self.guests.iter().map(|guest| guest.status()).collect(),
        }
    }
}
