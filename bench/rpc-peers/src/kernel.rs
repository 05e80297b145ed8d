//! Mechanisms of the kernel, all of which block: a futex, a pipe, a Unix socket, and TCP over loopback.

use crate::harness::{self, Peer, Place, Timed};
use crate::work::{fill, sum};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};

/// A round trip of two wakeups through two words, without data: the cost of sleeping.
pub struct Futex;

fn wake(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
    // SAFETY: the word is aligned and stays mapped.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

fn sleep_until(word: &AtomicU32, value: u32) {
    loop {
        let seen = word.load(Ordering::Acquire);
        if seen == value {
            return;
        }
        // SAFETY: as in `wake`; no time-out is given.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT,
                seen,
                std::ptr::null::<libc::timespec>(),
            );
        }
    }
}

fn words(place: &Place) -> io::Result<(&'static AtomicU32, &'static AtomicU32)> {
    let base = place.map()?.cast::<AtomicU32>();
    // SAFETY: mapped until the process ends, aligned, and used as atomics only.
    Ok(unsafe { (&*base, &*base.add(32)) })
}

impl Peer for Futex {
    fn name(&self) -> &'static str {
        "futex"
    }

    fn takes(&self, size: usize) -> bool {
        size == 64
    }

    fn serve(&self, place: &Place, _: usize) -> io::Result<()> {
        let (request, answer) = words(place)?;
        for turn in 1.. {
            sleep_until(request, turn);
            wake(answer, turn);
        }
        Ok(())
    }

    fn client(&self, place: &Place, _: usize, timed: &mut Timed) -> io::Result<()> {
        let (request, answer) = words(place)?;
        let mut turn = 0;
        timed.run(|| {
            turn += 1;
            wake(request, turn);
            sleep_until(answer, turn);
        });
        Ok(())
    }
}

/// Echoes messages of one size until the client has ended.
fn echo(mut stream: impl Read, mut back: impl Write, size: usize) -> io::Result<()> {
    let mut bytes = vec![0; size];
    while stream.read_exact(&mut bytes).is_ok() {
        let seed = sum(&bytes);
        fill(&mut bytes, seed);
        back.write_all(&bytes)?;
    }
    Ok(())
}

fn call(mut stream: impl Write, mut back: impl Read, size: usize, timed: &mut Timed) -> io::Result<()> {
    let mut bytes = vec![0; size];
    let mut wrong = Ok(());
    timed.run(|| {
        fill(&mut bytes, 1);
        let done = stream.write_all(&bytes).and_then(|()| back.read_exact(&mut bytes));
        std::hint::black_box(sum(&bytes));
        if done.is_err() {
            wrong = done;
        }
    });
    wrong
}

/// Two named pipes. A message that exceeds the capacity of a pipe is sent in parts.
pub struct Pipe;

impl Pipe {
    fn paths(place: &Place) -> [std::path::PathBuf; 2] {
        ["request", "answer"].map(|name| place.folder.join(name))
    }

    fn make(place: &Place) -> io::Result<[std::path::PathBuf; 2]> {
        let paths = Self::paths(place);
        for path in &paths {
            let name = std::ffi::CString::new(harness::text(path))?;
            // SAFETY: the name ends in a zero byte.
            if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } != 0 {
                let wrong = io::Error::last_os_error();
                if wrong.kind() != io::ErrorKind::AlreadyExists {
                    return Err(wrong);
                }
            }
        }
        Ok(paths)
    }
}

impl Peer for Pipe {
    fn name(&self) -> &'static str {
        "pipe"
    }

    fn serve(&self, place: &Place, size: usize) -> io::Result<()> {
        let [request, answer] = Self::make(place)?;
        echo(std::fs::File::open(request)?, std::fs::File::options().write(true).open(answer)?, size)
    }

    fn client(&self, place: &Place, size: usize, timed: &mut Timed) -> io::Result<()> {
        let [request, answer] = Self::make(place)?;
        call(std::fs::File::options().write(true).open(request)?, std::fs::File::open(answer)?, size, timed)
    }
}

pub struct Unix;

impl Peer for Unix {
    fn name(&self) -> &'static str {
        "unix socket"
    }

    fn serve(&self, place: &Place, size: usize) -> io::Result<()> {
        let (stream, _) = UnixListener::bind(place.socket())?.accept()?;
        echo(&stream, &stream, size)
    }

    fn client(&self, place: &Place, size: usize, timed: &mut Timed) -> io::Result<()> {
        let stream = harness::patiently(|| UnixStream::connect(place.socket()))?;
        call(&stream, &stream, size, timed)
    }
}

pub struct Tcp;

impl Peer for Tcp {
    fn name(&self) -> &'static str {
        "tcp loopback"
    }

    fn serve(&self, place: &Place, size: usize) -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        std::fs::write(place.folder.join("port.new"), listener.local_addr()?.port().to_string())?;
        std::fs::rename(place.folder.join("port.new"), place.folder.join("port"))?;
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        echo(&stream, &stream, size)
    }

    fn client(&self, place: &Place, size: usize, timed: &mut Timed) -> io::Result<()> {
        let port = harness::patiently(|| std::fs::read_to_string(place.folder.join("port")))?;
        let port: u16 = port.parse().map_err(io::Error::other)?;
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        call(&stream, &stream, size, timed)
    }
}
