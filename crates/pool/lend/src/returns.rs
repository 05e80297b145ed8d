//! Messages by which loans are returned, and the thread that reads them.
//!
//! Each link has a packet socket for these messages. A packet contains up to [`MOST`] offsets of buffers, of eight
//! bytes each, and the end of the socket's stream returns all loans. The same thread returns memory to the pool when no
//! buffer was taken for a while. No thread waits for a peer: if the socket does not take an offset, the offset is
//! queued and sent when the socket is writable.

use crate::arenas::Arenas;
use crate::buffer::OwnedBuffer;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use unrack_pool::Channel;

/// Maximum number of offsets in one packet.
const MOST: usize = 64;
/// Time without a new buffer after which freed memory is no longer kept.
const IDLE: Duration = Duration::from_secs(1);
/// Maximum freed bytes that each arena keeps until then. The limit is needed because other processes of the pool cannot
/// use this memory.
const MOST_KEPT: u64 = 64 << 20;
/// Key of the eventfd that wakes the thread.
const WAKE: u64 = 0;

/// The loans of one link in the two directions. The thread keeps this value until neither side holds a buffer of the
/// other.
pub(crate) struct Returns {
    /// Keeps this process's grants to the peer in force until the peer has returned all buffers that were lent to it.
    pub(crate) channel: Arc<Channel>,
    socket: OwnedFd,
    /// Buffers that the peer holds, by offset, with the number of times that each was lent.
    lent: Mutex<LentBuffer>,
    /// Offsets of the peer's buffers that were returned, but of which the peer is not informed yet.
    unsent: Mutex<Vec<u64>>,
    /// True once this process has no more loans and no more handles of the link.
    near_is_done: AtomicBool,
    watch: Arc<ReturnWatch>,
    key: u64,
}

#[derive(Default)]
struct LentBuffer {
    /// True once the peer holds no buffers and will not hold any.
    over: bool,
    buffers: HashMap<u64, (Arc<OwnedBuffer>, usize)>,
}

impl Returns {
    /// Records that the peer holds a buffer, so that it is not freed. Does nothing if the peer is gone.
    pub(crate) fn hold(&self, offset: u64, owned: &Arc<OwnedBuffer>) {
        let mut lent = lock(&self.lent);
        if !lent.over {
            lent.buffers.entry(offset).or_insert_with(|| (owned.clone(), 0)).1 += 1;
        }
    }

    /// Returns the number of buffers that the peer holds.
    pub(crate) fn held(&self) -> usize {
        lock(&self.lent).buffers.len()
    }

    /// Informs the peer that this process no longer uses one of the peer's buffers.
    pub(crate) fn give_back(&self, offset: u64) {
        let mut unsent = lock(&self.unsent);
        unsent.push(offset);
        if !self.send(&mut unsent) {
            drop(unsent);
            self.watch.listen(self, EventFlags::IN | EventFlags::OUT);
        }
    }

    /// Informs the peer that this process no longer holds any of the peer's buffers.
    pub(crate) fn end_near(&self) {
        self.near_is_done.store(true, Ordering::Release);
        let _ = shutdown(&self.socket, Shutdown::Write);
        self.watch.wake();
    }

    /// Sends as many offsets as the socket takes. Returns whether all were sent.
    fn send(&self, unsent: &mut Vec<u64>) -> bool {
        while !unsent.is_empty() {
            let count = unsent.len().min(MOST);
            let packet: Vec<u8> = unsent[..count].iter().flat_map(|offset| offset.to_le_bytes()).collect();
            match send(&self.socket, &packet, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => return false,
                // The peer is gone, so it need not be informed.
                Err(_) => unsent.clear(),
                Ok(_) => drop(unsent.drain(..count)),
            }
        }
        true
    }

    /// Reads the packets in which the peer returns buffers.
    fn read(&self) {
        let mut packet = [0; MOST * 8];
        loop {
            match recv(&self.socket, &mut packet, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok((bytes, _)) if bytes > 0 => self.returned(&packet[..bytes]),
                _ => return self.end_far(),
            }
        }
    }

    fn returned(&self, packet: &[u8]) {
        let mut free = Vec::new();
        let mut lent = lock(&self.lent);
        for offset in packet.chunks_exact(8) {
            let offset = u64::from_le_bytes(offset.try_into().expect("eight bytes"));
            // The peer did not hold this buffer. The peer broke the protocol, but no other buffer is affected.
            let Some((_, count)) = lent.buffers.get_mut(&offset) else { continue };
            *count -= 1;
            if *count == 0 {
                free.extend(lent.buffers.remove(&offset));
            }
        }
        // The buffers are freed after the lock is released, because freeing may query the manager.
        drop(lent);
    }

    /// Takes back all buffers that the peer holds.
    fn end_far(&self) {
        let mut lent = lock(&self.lent);
        lent.over = true;
        let buffers = std::mem::take(&mut lent.buffers);
        drop(lent);
        drop(buffers);
    }

    fn write(&self) {
        let mut unsent = lock(&self.unsent);
        if self.send(&mut unsent) {
            self.watch.listen(self, EventFlags::IN);
        }
    }

    fn is_over(&self) -> bool {
        self.near_is_done.load(Ordering::Acquire) && lock(&self.lent).over
    }
}

/// Links of an endpoint, and the events that the endpoint's thread waits for.
pub(crate) struct ReturnWatch {
    epoll: OwnedFd,
    wake: OwnedFd,
    links: Mutex<HashMap<u64, Arc<Returns>>>,
    next: AtomicU64,
    /// True once the endpoint is gone. The thread then ends after its last link.
    leaving: AtomicBool,
    arenas: Arenas,
    /// Number of buffers that were taken so far.
    taken: AtomicU64,
    /// True while freed memory is kept for later buffers.
    keeps: AtomicBool,
}

impl ReturnWatch {
    /// Starts the thread of an endpoint.
    pub(crate) fn start(arenas: Arenas) -> std::io::Result<Arc<ReturnWatch>> {
        let watch = ReturnWatch {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            links: Mutex::default(),
            next: AtomicU64::new(WAKE + 1),
            leaving: AtomicBool::new(false),
            arenas,
            taken: AtomicU64::new(0),
            keeps: AtomicBool::new(false),
        };
        epoll::add(&watch.epoll, &watch.wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let watch = Arc::new(watch);
        std::thread::Builder::new().name("unrack-lend".into()).spawn({
            let watch = watch.clone();
            move || watch.run()
        })?;
        Ok(watch)
    }

    /// Adds a link with its socket for returned loans.
    pub(crate) fn add(
        self: &Arc<ReturnWatch>,
        channel: Arc<Channel>,
        socket: OwnedFd,
    ) -> rustix::io::Result<Arc<Returns>> {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let returns = Arc::new(Returns {
            channel,
            socket,
            lent: Mutex::default(),
            unsent: Mutex::default(),
            near_is_done: AtomicBool::new(false),
            watch: self.clone(),
            key,
        });
        lock(&self.links).insert(key, returns.clone());
        let added = epoll::add(&self.epoll, &returns.socket, EventData::new_u64(key), EventFlags::IN);
        if added.is_err() {
            lock(&self.links).remove(&key);
        }
        added.map(|()| returns)
    }

    /// Lets the thread end as soon as no link is left.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // The result does not matter, because a counter that is full wakes the thread as well.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn listen(&self, returns: &Returns, events: EventFlags) {
        // This fails only if the link is over.
        let _ = epoll::modify(&self.epoll, &returns.socket, EventData::new_u64(returns.key), events);
    }

    /// Records that a buffer was taken. From then on, freed memory is kept for later buffers, until no buffer is taken
    /// for a while.
    pub(crate) fn note_taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        if !self.keeps.load(Ordering::Relaxed) && !self.keeps.swap(true, Ordering::AcqRel) {
            self.arenas.keep_spare(MOST_KEPT);
            self.wake();
        }
    }

    /// Returns the kept memory to the pool if no buffer was taken since the last check, at which `before` buffers had
    /// been taken. Returns the number of buffers taken so far.
    fn look(&self, before: u64) -> u64 {
        let taken = self.taken.load(Ordering::Relaxed);
        if taken == before && self.keeps.swap(false, Ordering::AcqRel) {
            self.arenas.keep_spare(0);
        }
        taken
    }

    fn run(&self) {
        let mut events = Vec::with_capacity(64);
        let (mut taken, mut next_look) = (0, Instant::now() + IDLE);
        loop {
            let timeout = self.keeps.load(Ordering::Acquire).then(|| {
                let left = next_look.saturating_duration_since(Instant::now());
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
            });
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => unreachable!("an epoll of our own failed: {error}"),
            }
            if Instant::now() >= next_look {
                (taken, next_look) = (self.look(taken), Instant::now() + IDLE);
            }
            for event in events.drain(..) {
                self.handle(event.data.u64(), event.flags);
            }
            // The links are dropped after the lock is released, because dropping a channel queries the manager.
            let over: Vec<_> = lock(&self.links).extract_if(|_, returns| returns.is_over()).collect();
            drop(over);
            if self.leaving.load(Ordering::Acquire) && lock(&self.links).is_empty() {
                return;
            }
        }
    }

    fn handle(&self, key: u64, flags: EventFlags) {
        if key == WAKE {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            return;
        }
        let Some(returns) = lock(&self.links).get(&key).cloned() else { return };
        if flags.contains(EventFlags::OUT) {
            returns.write();
        }
        returns.read();
        if lock(&returns.lent).over {
            // A socket at its end is always readable, so it is removed from the set.
            let _ = epoll::delete(&self.epoll, &returns.socket);
        }
    }
}

/// Locks a mutex, even if another thread panicked while holding it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
