//! Connection of the rack's process with one guest. All programs in the guest share it.
//!
//! The thread that reads from the guest never writes to it, and never waits for the processes on this machine that started programs in the
//! guest. Therefore a guest that is slow, stopped or faulty holds up only its own programs.

use crate::wire::{Frame, Stream, VERSION, WINDOW, WireError};
use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of frames that may wait for the process that started a program: those of three streams, and answers to signals.
const MOST_WAITING: usize = 5 * WINDOW;

/// Connection with a guest.
#[derive(Debug)]
pub(crate) struct Link {
    port: Mutex<UnixStream>,
    programs: Mutex<GuestPrograms>,
}

/// Programs of a guest: for each program, the queue of frames for the process that started it.
#[derive(Debug, Default)]
struct GuestPrograms {
    last: u32,
    queues: HashMap<u32, SyncSender<Frame>>,
    /// True once the guest has ended.
    closed: bool,
}

impl Link {
    /// Creates the connection with the guest at the other end of `port`.
    pub(crate) fn new(port: UnixStream) -> Link {
        Link { port: Mutex::new(port), programs: Mutex::default() }
    }

    /// Exchanges greetings with the agent, as soon as the agent runs.
    pub(crate) fn greet(&self, from: &mut impl Read) -> Result<(), WireError> {
        self.send(&Frame::Hello { version: VERSION })?;
        match Frame::read(from)? {
            Some(Frame::Hello { version: VERSION }) => Ok(()),
            Some(Frame::Hello { version }) => Err(WireError::Version(version)),
            Some(_) => Err(WireError::Malformed("the first is not a greeting")),
            None => Err(WireError::Io(std::io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Passes frames from the guest to the processes that started programs, until the guest ends.
    pub(crate) fn carry(&self, from: &mut impl Read) -> Result<(), WireError> {
        while let Some(frame) = Frame::read(from)? {
            let number = match &frame {
                Frame::Bytes { program, stream: Stream::Output | Stream::Errors, .. }
                | Frame::Took { program, stream: Stream::Input }
                | Frame::Signal { program, .. }
                | Frame::Ended { program, .. } => *program,
                _ => return Err(WireError::Malformed("it is of the other end")),
            };
            let is_last = matches!(frame, Frame::Ended { .. });
            let mut programs = self.programs();
            // The process that started the program may be gone. If more frames wait for it than the window allows, it is disconnected.
            let Some(queue) = programs.queues.get(&number) else { continue };
            if queue.try_send(frame).is_err() || is_last {
                programs.queues.remove(&number);
            }
        }
        Ok(())
    }

    /// Disconnects all processes that started programs, because the guest has ended.
    pub(crate) fn close(&self) {
        let mut programs = self.programs();
        programs.closed = true;
        programs.queues.clear();
    }

    /// Passes frames between a process that starts a program and the guest, until one of the two ends.
    pub(crate) fn attach(&self, mut from: BufReader<UnixStream>) {
        let Ok(to) = from.get_ref().try_clone() else { return };
        let (queue, frames) = sync_channel(MOST_WAITING);
        let number = {
            let mut programs = self.programs();
            if programs.closed {
                return;
            }
            programs.last = programs.last.wrapping_add(1);
            let number = programs.last;
            programs.queues.insert(number, queue);
            number
        };
        std::thread::scope(|scope| {
            scope.spawn(move || answer(to, &frames));
            while let Ok(Some(frame)) = Frame::read(&mut from) {
                let is_allowed = matches!(
                    frame,
                    Frame::Start { .. }
                        | Frame::Bytes { stream: Stream::Input, .. }
                        | Frame::Took { stream: Stream::Output | Stream::Errors, .. }
                        | Frame::Signal { .. }
                );
                if !is_allowed || self.send(&frame.with_program(number)).is_err() {
                    break;
                }
            }
            self.programs().queues.remove(&number);
        });
        // The agent ignores this frame if the program has ended already. An error is ignored too, because the guest may have ended.
        let _ = self.send(&Frame::Leave { program: number });
    }

    fn send(&self, frame: &Frame) -> std::io::Result<()> {
        frame.write(&mut *self.port.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn programs(&self) -> MutexGuard<'_, GuestPrograms> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends frames to the process that started a program until there are no more, and then closes the connection.
fn answer(mut to: UnixStream, frames: &Receiver<Frame>) {
    for frame in frames {
        if frame.write(&mut to).is_err() {
            break;
        }
    }
    // Ignore errors, because the other end may have closed the connection itself.
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::GuestExit;
    use std::sync::Arc;

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    #[test]
    fn programs_share_a_link_and_keep_their_numbers() {
        let (port, mut guest) = pair();
        let mut reader = port.try_clone().unwrap();
        let link = Arc::new(Link::new(port));
        let carrier = {
            let link = link.clone();
            std::thread::spawn(move || {
                let done = link.carry(&mut reader);
                link.close();
                done
            })
        };
        let clients: Vec<UnixStream> = (0..2)
            .map(|_| {
                let (client, server) = pair();
                let link = link.clone();
                std::thread::spawn(move || link.attach(BufReader::new(server)));
                client
            })
            .collect();
        for mut client in &clients {
            Frame::Signal { program: 77, signal: 2 }.write(&mut client).unwrap();
            let Some(Frame::Signal { program, signal: 2 }) = Frame::read(&mut guest).unwrap() else {
                panic!()
            };
            let outcome = GuestExit::Exited(program as u8);
            Frame::Ended { program, outcome: outcome.clone() }.write(&mut guest).unwrap();
            assert_eq!(Frame::read(&mut client).unwrap(), Some(Frame::Ended { program, outcome }));
            assert!(Frame::read(&mut client).unwrap().is_none());
            assert_eq!(Frame::read(&mut guest).unwrap(), Some(Frame::Leave { program }));
        }
        drop(guest);
        carrier.join().unwrap().unwrap();
    }

    #[test]
    fn who_goes_takes_the_program_along_and_a_wrong_guest_is_left() {
        let (port, mut guest) = pair();
        let mut reader = port.try_clone().unwrap();
        let link = Arc::new(Link::new(port));
        let (client, server) = pair();
        let attached = {
            let link = link.clone();
            std::thread::spawn(move || link.attach(BufReader::new(server)))
        };
        drop(client);
        assert_eq!(Frame::read(&mut guest).unwrap(), Some(Frame::Leave { program: 1 }));
        attached.join().unwrap();
        Frame::Leave { program: 1 }.write(&mut guest).unwrap();
        assert!(link.carry(&mut reader).is_err());
    }
}
