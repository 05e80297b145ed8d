//! Buffers that are passed by reference: endpoints, links, buffers and loans.

use crate::border;
use crate::error::{CallFailure, CallStatus};
use std::ffi::{c_char, c_int};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::time::Duration;

/// A connection to a pool, for passing buffers. Threads may share it. It may be freed before its listeners, links and
/// buffers.
pub(crate) struct Endpoint(unrack_lend::Endpoint);

/// A name under which an endpoint accepts links. Threads may share it.
pub(crate) struct Listener(unrack_lend::Listener);

/// A byte stream to a peer, with which buffers are lent. Threads may share it. It may be freed before its buffers and
/// loans.
pub(crate) struct Link(unrack_lend::PeerLink);

/// A buffer of this process, to be filled and lent. It remains as long as a peer holds it.
pub(crate) struct Buffer(unrack_lend::LentBuffer);

/// A buffer of a peer. It remains until this handle is freed, even if the link or the endpoint ends before.
pub(crate) struct LoanHandle(unrack_lend::Loan);

/// Timeout with which a listener waits for the next link without a limit.
const FOR_EVER: u64 = crate::client::NO_TIMEOUT;

fn patience(nanoseconds: u64) -> Duration {
    if nanoseconds == FOR_EVER { Duration::MAX } else { Duration::from_nanos(nanoseconds) }
}

/// # Safety
/// The pointer must be null, or point to a handle that is not freed meanwhile.
unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, CallFailure> {
    // SAFETY: the caller guarantees it.
    unsafe { pointer.as_ref() }.ok_or_else(|| CallFailure::null(name))
}

/// Connects to the pool at a socket (null: the user's default pool), for passing buffers by reference.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_endpoint_connect(
    pool: *const c_char,
    endpoint: *mut *mut Endpoint,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let connect = || {
        // SAFETY: null or a text, as the header requires; this applies to all texts below.
        let pool = unsafe { border::socket(pool)? };
        Ok(Endpoint(unrack_lend::Endpoint::connect(pool)?))
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(endpoint, "endpoint", connect)) }
}

/// Frees an endpoint. Null is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_endpoint_free(endpoint: *mut Endpoint) {
    // SAFETY: as the header requires.
    unsafe { border::free(endpoint) }
}

/// Listens for links under a name. A thread of the library accepts them, so that no peer has to wait for this program.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_endpoint_listen(
    endpoint: *const Endpoint,
    name: *const c_char,
    listener: *mut *mut Listener,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let listen = || {
        // SAFETY: null, or an endpoint and a text.
        let (endpoint, name) = unsafe { (shared(endpoint, "endpoint")?, border::text(name, "name")?) };
        Ok(Listener(endpoint.0.listen(name)?))
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(listener, "listener", listen)) }
}

/// Opens a link to the listener of a name, which has `patience_ns` nanoseconds to accept it. The listener must belong
/// to another endpoint; therefore a process that has the two ends of a link needs an endpoint for each.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_endpoint_open(
    endpoint: *const Endpoint,
    name: *const c_char,
    patience_ns: u64,
    link: *mut *mut Link,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let open = || {
        // SAFETY: null, or an endpoint and a text.
        let (endpoint, name) = unsafe { (shared(endpoint, "endpoint")?, border::text(name, "name")?) };
        Ok(Link(endpoint.0.open(name, Duration::from_nanos(patience_ns))?))
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(link, "link", open)) }
}

/// Takes a buffer that any links of the endpoint can lend to readers, which cannot write it. If `writable` is true,
/// only one link can lend it, only once, and the peer may write it until the peer returns it. Note that each peer to
/// which such a buffer was lent can write all writable buffers.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_endpoint_buffer(
    endpoint: *const Endpoint,
    bytes: u64,
    writable: bool,
    buffer: *mut *mut Buffer,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let take = || {
        // SAFETY: null or an endpoint.
        let endpoint = unsafe { shared(endpoint, "endpoint")? };
        let taken = if writable { endpoint.0.writable_buffer(bytes) } else { endpoint.0.buffer(bytes) };
        Ok(Buffer(taken?))
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(buffer, "buffer", take)) }
}

/// Writes the next link to `link`; null if none comes within `timeout_ns` nanoseconds. `UNRACK_NO_TIMEOUT` waits
/// without a limit, and 0 checks only once.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_listener_accept(
    listener: *const Listener,
    timeout_ns: u64,
    link: *mut *mut Link,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let accept = || {
        // SAFETY: null, or a listener and a place to write to.
        let (listener, link) = unsafe { (shared(listener, "listener")?, border::reach(link, "link")?) };
        let next = listener.0.accept(patience(timeout_ns))?;
        *link = next.map_or(std::ptr::null_mut(), |next| Box::into_raw(Box::new(Link(next))));
        Ok(())
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, accept) }
}

/// Returns a descriptor that is readable when there may be a new link, for `poll`, `epoll` or an event library. It
/// belongs to the listener, and must be neither read nor closed. -1: there is no listener.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_listener_descriptor(listener: *const Listener) -> c_int {
    // SAFETY: null or a listener.
    border::or(-1, || unsafe { listener.as_ref() }.map(|listener| listener.0.readable().as_raw_fd()))
}

/// Frees the listener's name. Links that were accepted remain. Null is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_listener_free(listener: *mut Listener) {
    // SAFETY: as the header says.
    unsafe { border::free(listener) }
}

/// Writes to `descriptor` a socket of the byte stream to the peer, which the caller must close. The stream ends when
/// the peer has freed its link and closed its descriptors, or is gone.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_link_stream(
    link: *const Link,
    descriptor: *mut c_int,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let duplicate = || {
        // SAFETY: null, or a link and a place to write to.
        let (link, descriptor) = unsafe { (shared(link, "link")?, border::reach(descriptor, "descriptor")?) };
        let own = link.0.stream().as_fd().try_clone_to_owned().map_err(unrack_lend::Error::Socket)?;
        *descriptor = own.into_raw_fd();
        Ok(())
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, duplicate) }
}

/// Returns the process ID of the peer, as the kernel identified it.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_link_process(link: *const Link) -> u32 {
    // SAFETY: null or a link.
    border::or(0, || unsafe { link.as_ref() }.map(|link| link.0.peer().pid))
}

/// Returns the number of buffers that are lent to the peer.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_link_lent(link: *const Link) -> usize {
    // SAFETY: null or a link.
    border::or(0, || unsafe { link.as_ref() }.map(|link| link.0.lent()))
}

/// Lends a buffer to the peer; the buffer must not be written any more. Writes to `reference` a number, which the
/// program has to send to the peer over the stream. The peer has to receive the buffer once for each time that it was
/// lent.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_link_lend(
    link: *const Link,
    buffer: *const Buffer,
    reference: *mut u64,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let lend = || {
        // SAFETY: null, or a link, a buffer, and a place to write to.
        let (link, buffer, reference) = unsafe {
            (shared(link, "link")?, shared(buffer, "buffer")?, border::reach(reference, "reference")?)
        };
        *reference = link.0.lend(&buffer.0)?;
        Ok(())
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, lend) }
}

/// Receives a buffer that the peer has lent, by its reference, which is valid only once. If `writable` is true, the
/// peer must have taken the buffer as writable, and the receiver may write it.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_link_receive(
    link: *const Link,
    reference: u64,
    bytes: u64,
    writable: bool,
    loan: *mut *mut LoanHandle,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let receive = || {
        // SAFETY: null or a link.
        let link = unsafe { shared(link, "link")? };
        let received = match writable {
            true => link.0.receive_writable(reference, bytes),
            false => link.0.receive(reference, bytes),
        };
        Ok(LoanHandle(received?))
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(loan, "loan", receive)) }
}

/// Ends the link. Loans remain, and so do buffers that the peer holds. Null is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_link_free(link: *mut Link) {
    // SAFETY: as the header says.
    unsafe { border::free(link) }
}

/// Returns the bytes of the buffer. They begin at a cache line, and at first they contain bytes of an earlier use. They
/// may be written until the buffer is lent, and read until it is freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_buffer_bytes(buffer: *const Buffer) -> *mut u8 {
    // SAFETY: null or a buffer.
    border::or(std::ptr::null_mut(), || unsafe { buffer.as_ref() }.map(|buffer| buffer.0.as_ptr().as_ptr()))
}

/// Frees the buffer as soon as no peer holds it. Null is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_buffer_free(buffer: *mut Buffer) {
    // SAFETY: as the header says.
    unsafe { border::free(buffer) }
}

/// Returns the bytes of the loan, in the memory to which their owner wrote them.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_loan_bytes(loan: *const LoanHandle) -> *mut u8 {
    // SAFETY: null or a loan.
    border::or(std::ptr::null_mut(), || unsafe { loan.as_ref() }.map(|loan| loan.0.as_ptr().as_ptr()))
}

/// Returns the loan to its owner. Null is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_loan_free(loan: *mut LoanHandle) {
    // SAFETY: as the header says.
    unsafe { border::free(loan) }
}
