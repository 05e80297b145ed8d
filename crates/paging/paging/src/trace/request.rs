//! Request of a process to be traced, and the answer of the tracer.

use super::raw;
use crate::PagingError;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::process::PTracer;
use std::io;
use std::os::fd::OwnedFd;

/// End of the connection that belongs to the process to be traced.
pub(crate) struct TraceRequest(OwnedFd);

/// End of the connection that belongs to the tracer.
pub(crate) struct TraceAcceptor(OwnedFd);

/// Makes both ends of the connection.
///
/// # Errors
/// [`PagingError::Failed`] if this process cannot open more files.
pub(crate) fn request_pair() -> Result<(TraceRequest, TraceAcceptor), PagingError> {
    let (outside, inside) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(PagingError::failed("make a connection to the tracer"))?;
    Ok((TraceRequest(outside), TraceAcceptor(inside)))
}

impl TraceRequest {
    /// Asks to be traced, and returns when this process is traced. Neither allocates nor locks, so that it may be called between a fork and
    /// the execution of the program.
    ///
    /// # Errors
    /// `EPERM` if tracing is not permitted here, `EPIPE` if there is no tracer.
    pub(crate) fn send(&self) -> io::Result<()> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        // Needed if only descendants may be traced (Yama) while the tracer is a child of this process.
        permit(PTracer::Any);
        let answered = send(&self.0, &pid.to_ne_bytes(), SendFlags::NOSIGNAL).and_then(|_| receive(&self.0));
        permit(PTracer::None);
        match answered?.map(i32::from_ne_bytes) {
            None => Err(Errno::PIPE.into()),
            Some(0) => Ok(()),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

fn permit(tracer: PTracer) {
    // `EINVAL` means that the kernel has no such restriction.
    let _ = rustix::process::set_ptracer(tracer);
}

impl TraceAcceptor {
    /// Waits for a request, and traces the process. Returns the process number, or `None` if no process asks or it cannot be traced.
    pub(super) fn accept(self) -> Option<u32> {
        let pid = u32::from_ne_bytes(receive(&self.0).ok()??);
        let seized = raw::seize(pid, raw::USUAL);
        let errno = seized.err().map_or(0, Errno::raw_os_error);
        // A process that has ended needs no answer.
        let _ = send(&self.0, &errno.to_ne_bytes(), SendFlags::NOSIGNAL);
        seized.ok().map(|()| pid)
    }
}

/// Receives a message of four bytes; `None` if the other end is closed.
fn receive(fd: &OwnedFd) -> Result<Option<[u8; 4]>, Errno> {
    let mut bytes = [0u8; 4];
    loop {
        match recv(fd, &mut bytes[..], RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            other => return other.map(|(len, _)| (len == 4).then_some(bytes)),
        }
    }
}
