//! Programs in a guest, as seen by the process that starts them.

use crate::flow::StreamCredits;
use crate::rack_state::GuestRackState;
use crate::signals::Blocked;
use crate::wire::{Frame, GuestExit, MOST_BYTES, Program, Stream};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use unrack_live::Error;

/// Number of the program on this stream. The rack's process replaces it by another number.
const NUMBER: u32 = 0;
/// Time within which a guest has to answer a signal. It also suffices for an emulated guest on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// Exit status if the reader of the program's output is gone, as in a shell.
const BROKEN_PIPE: u8 = 128 + libc::SIGPIPE as u8;

/// Runs a program on a host, with the standard streams, environment and folder of this process. Returns how the program ended. Signals to
/// this process are passed to the program. If the guest does not answer a signal, this process ends.
///
/// Threads of this process may continue to wait for input, so the process should exit soon afterwards.
///
/// # Errors
/// [`Error::Usage`] if the host is not up, or if the command line is too long; [`Error::Broken`] if the host ends before the program.
pub fn exec(rack_state: &GuestRackState, host: &str, words: &[OsString]) -> Result<GuestExit, Error> {
    let broken = |why: std::io::Error| Error::Broken(format!("host `{host}` cannot be reached: {why}"));
    let signals = Blocked::start().map_err(broken)?;
    let mut from = rack_state.open(host)?;
    let to = Arc::new(Mutex::new(from.get_ref().try_clone().map_err(broken)?));
    let start = Frame::Start { program: NUMBER, it: program(words) };
    send(&to, &start).map_err(|why| match why.kind() {
        ErrorKind::InvalidInput => Error::Usage(why.to_string()),
        _ => broken(why),
    })?;
    let (input, is_unanswered) = (Arc::new(StreamCredits::default()), Arc::new(AtomicBool::new(false)));
    std::thread::spawn({
        let (to, input) = (to.clone(), input.clone());
        move || feed(&to, &input)
    });
    std::thread::spawn({
        let (to, is_unanswered) = (to.clone(), is_unanswered.clone());
        move || pass_on(&signals, &to, &is_unanswered)
    });
    loop {
        let frame = Frame::read(&mut from).map_err(|why| Error::Broken(format!("host `{host}`: {why}")))?;
        match frame {
            Some(Frame::Bytes { stream, bytes, .. }) => {
                let written = match stream {
                    Stream::Output => write(&mut std::io::stdout().lock(), &bytes),
                    _ => write(&mut std::io::stderr().lock(), &bytes),
                };
                if written.is_err() {
                    return Ok(GuestExit::Exited(BROKEN_PIPE));
                }
                // Ignore errors: if the rack's process has ended, the next read reports it.
                let _ = send(&to, &Frame::Took { program: NUMBER, stream });
            }
            Some(Frame::Took { .. }) => _ = input.give(),
            Some(Frame::Signal { .. }) => is_unanswered.store(false, Ordering::Relaxed),
            Some(Frame::Ended { outcome, .. }) => return Ok(outcome),
            Some(_) => return Err(Error::Broken(format!("host `{host}` sent a frame of the other end"))),
            None => return Err(Error::Broken(format!("host `{host}` ended before the program did"))),
        }
    }
}

fn write(to: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
    to.write_all(bytes).and_then(|()| to.flush())
}

fn program(words: &[OsString]) -> Program {
    let bytes = |text: &OsStr| text.as_bytes().to_vec();
    Program {
        words: words.iter().map(|word| bytes(word)).collect(),
        variables: std::env::vars_os().map(|(name, value)| (bytes(&name), bytes(&value))).collect(),
        folder: std::env::current_dir().map(|folder| bytes(folder.as_os_str())).unwrap_or_default(),
    }
}

fn send(to: &Mutex<UnixStream>, frame: &Frame) -> std::io::Result<()> {
    frame.write(&mut *to.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Sends the standard input until it ends. Input that cannot be read counts as ended.
fn feed(to: &Mutex<UnixStream>, credits: &StreamCredits) {
    let mut buffer = vec![0; MOST_BYTES];
    while credits.take() {
        let length = loop {
            match std::io::stdin().lock().read(&mut buffer) {
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                read => break read.unwrap_or(0),
            }
        };
        let frame = Frame::Bytes { program: NUMBER, stream: Stream::Input, bytes: buffer[..length].to_vec() };
        if send(to, &frame).is_err() || length == 0 {
            return;
        }
    }
}

/// Passes signals to the program. If the guest does not answer a signal, because it is stopped or hangs, this process ends at the next
/// signal or after a timeout.
fn pass_on(signals: &Blocked, to: &Mutex<UnixStream>, is_unanswered: &AtomicBool) {
    let mut last = 0;
    loop {
        let longest = is_unanswered.load(Ordering::Relaxed).then_some(PATIENCE);
        let signal = signals.wait(longest);
        if is_unanswered.load(Ordering::Relaxed) {
            std::process::exit(i32::from(signal.unwrap_or(last)) + 128);
        }
        let Some(signal) = signal else { continue };
        last = signal;
        is_unanswered.store(true, Ordering::Relaxed);
        if send(to, &Frame::Signal { program: NUMBER, signal }).is_err() {
            return;
        }
    }
}
