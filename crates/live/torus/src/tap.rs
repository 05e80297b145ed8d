//! TAP device of a gateway: an Ethernet interface to this machine's kernel. The kernel removes the device when it is closed.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::ioctl::{Setter, ioctl};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
use unrack_live::Error;
use unrack_live::iproute2;

/// An open device.
#[derive(Debug)]
pub(crate) struct Tap(File);

const PATH: &str = "/dev/net/tun";
/// `_IOW('T', 202, int)` of Linux, although its argument is an `ifreq`.
const TUNSETIFF: u32 = 0x4004_54CA;
/// Flags for frames without the packet information header.
const IFF_TAP_NO_PI: u16 = 0x0002 | 0x1000;
/// Size of a device name in bytes, with the terminating zero.
const IFNAMSIZ: usize = 16;

/// `struct ifreq`, with only the fields that are used here.
#[repr(C)]
struct Request {
    name: [u8; IFNAMSIZ],
    flags: u16,
    rest: [u8; 22],
}

impl Tap {
    /// Creates the device with this MTU in bytes. The device must not exist already.
    ///
    /// # Errors
    /// [`Error::Usage`] if the name is invalid or taken; [`Error::Lacking`] if this machine or user cannot create a device.
    pub(crate) fn new(name: &str, mtu: u64) -> Result<Tap, Error> {
        let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':' && byte != b'%';
        if name.is_empty() || name.len() >= IFNAMSIZ || !name.bytes().all(fits) {
            let rule = "a device has a name of 1 to 15 letters and digits";
            return Err(Error::Usage(format!("--gateway: {rule}: `{}`", name.escape_debug())));
        }
        if Path::new("/sys/class/net").join(name).exists() {
            return Err(Error::Usage(format!(
                "--gateway: there is a device `{name}` already: take another name"
            )));
        }
        let lacks = |why: std::io::Error| {
            let root = if rustix::process::geteuid().is_root() { "" } else { ": run this with sudo" };
            Error::Lacking(format!(
                "a gateway is a TAP device of {PATH} (CONFIG_TUN), made by root: {why}{root}"
            ))
        };
        let file = OpenOptions::new().read(true).write(true).open(PATH).map_err(lacks)?;
        let mut request = Request { name: [0; IFNAMSIZ], flags: IFF_TAP_NO_PI, rest: [0; 22] };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        set_interface(&file, request).map_err(|why| lacks(why.into()))?;
        rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::NONBLOCK).map_err(|why| lacks(why.into()))?;
        let tap = Tap(file);
        iproute2::run("ip", &["link", "set", "dev", name, "mtu", &mtu.to_string(), "up"], "")?;
        Ok(tap)
    }

    /// Returns another handle of the same device.
    pub(crate) fn try_clone(&self) -> std::io::Result<Tap> {
        self.0.try_clone().map(Tap)
    }

    /// Returns the next frame from hosts, if a frame arrives within 200 ms.
    pub(crate) fn read<'a>(&mut self, frame: &'a mut [u8]) -> Option<&'a [u8]> {
        let soon = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let mut ready = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        if !poll(&mut ready, Some(&soon)).is_ok_and(|ready| ready > 0) {
            return None;
        }
        match self.0.read(frame) {
            Ok(length) => Some(&frame[..length]),
            Err(why) if why.kind() == ErrorKind::WouldBlock => None,
            // The device has disappeared with its namespace.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(200));
                None
            }
        }
    }

    /// Sends a frame to hosts. A device that is down loses it, as a cable would.
    pub(crate) fn write(&mut self, frame: &[u8]) {
        let _ = self.0.write(frame);
    }
}

#[allow(unsafe_code)]
fn set_interface(file: &File, request: Request) -> rustix::io::Result<()> {
    // SAFETY: the kernel reads an `ifreq` for this request, whose size, fields and alignment `Request` has.
    unsafe { ioctl(file, Setter::<TUNSETIFF, Request>::new(request)) }
}

const _: () = assert!(size_of::<Request>() == 40);
