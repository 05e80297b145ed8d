//! Request of a process to be traced, and the tracer's answer.

use super::raw;
use crate::PagingError;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::process::PTracer;
use std::io;
use std::os::fd::OwnedFd;

/// Side of the process to be traced.
pub(crate) struct TraceRequest(OwnedFd);

/// Side of the tracer.
pub(crate) struct TraceAcceptor(OwnedFd);

/// Makes both sides.
///
/// # Errors
/// [`PagingError::Failed`] if this process can open no more files.
pub(crate) fn request_pair() -> Result<(TraceRequest, TraceAcceptor), PagingError> {
    let (outside, inside) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(PagingError::failed("make a connection to the tracer"))?;
    Ok((TraceRequest(outside), TraceAcceptor(inside)))
}

impl TraceRequest {
    /// Asks to be traced; returns when this process is. Neither allocates nor locks, so that it may be called between a
    /// fork and the program.
    ///
    /// # Errors
    /// `EPERM` if tracing is not permitted here, `EPIPE` if there is no tracer.
    pub(crate) fn send(&self) -> io::Result<()> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        // Where only descendants may be traced (Yama), the tracer may be our child.
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
    // `EINVAL` where there is no such restriction.
    let _ = rustix::process::set_ptracer(tracer);
}

impl TraceAcceptor {
    /// Waits for a process, and traces it. Returns its number, or `None` if none asks or it cannot be traced.
    pub(super) fn accept(self) -> Option<u32> {
        let pid = u32::from_ne_bytes(receive(&self.0).ok()??);
        let seized = raw::seize(pid, raw::USUAL);
        let errno = seized.err().map_or(0, Errno::raw_os_error);
        // A process that is gone needs no answer.
        let _ = send(&self.0, &errno.to_ne_bytes(), SendFlags::NOSIGNAL);
        seized.ok().map(|()| pid)
    }
}

/// Receives a message of four bytes; `None` if the other side is closed.
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
