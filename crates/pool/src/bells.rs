//! Words to sleep on, and to wake others by.
//!
//! A process has a page of bells. It maps it writable before anybody else has the descriptor, and then seals it:
//! the kernel lets nobody else map it writable, so that no peer can keep another's ring from being heard. A peer
//! sees whether somebody sleeps, and only then pays for a system call. Bells are coherent memory of one host and
//! never go through cache control.
//!
//! The word is the sleeper's alone, so a ring leaves no trace in it. A ring that comes before the sleeper is quite
//! asleep is therefore repeated until the kernel says that it woke somebody, or the word that nobody sleeps.

use crate::{LINE, PAGE};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::thread::futex;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

/// Bells of a process.
pub const BELLS: usize = PAGE as usize / LINE;

/// The lowest bit says that somebody sleeps; those above count how often somebody did.
const ASLEEP: u32 = 1;

/// One bell: a line of its own. One thread at a time sleeps on it.
#[repr(C, align(64))]
pub struct Bell {
    /// [`ASLEEP`], and the number of the sleep.
    state: AtomicU32,
}

impl Bell {
    /// Sleeps until the bell rings, or the time is over, unless `ready` says that there is something to do.
    /// `ready` is asked after the sleeper can be seen: what it does not see is followed by a ring. May return
    /// for no reason.
    pub fn sleep(&self, timeout: Option<Duration>, ready: impl FnOnce() -> bool) {
        let asleep = (self.state.load(Ordering::Relaxed) & !ASLEEP).wrapping_add(2) | ASLEEP;
        self.state.store(asleep, Ordering::SeqCst);
        // Pairs with the fence of `try_ring`: either we see what it announces, or it sees us asleep.
        fence(Ordering::SeqCst);
        if !ready() {
            let timeout = timeout.map(|timeout| futex::Timespec {
                tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
                tv_nsec: timeout.subsec_nanos().into(),
            });
            // Whatever it returns: the caller looks again.
            let _ = futex::wait(&self.state, futex::Flags::empty(), asleep, timeout.as_ref());
        }
        self.state.store(asleep & !ASLEEP, Ordering::SeqCst);
    }

    /// Wakes the sleeper, if there is one. What it is to find was stored before. Says whether it needed to; gives
    /// up at `deadline`, if the sleeper says that it sleeps and does not.
    pub fn ring(&self, deadline: Option<Instant>) -> bool {
        let mut rung = Rung::default();
        let mut needed = false;
        while !self.try_ring(&mut rung) && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            needed = true;
            std::thread::yield_now();
        }
        needed || rung != Rung::default()
    }

    /// As [`ring`](Bell::ring), once: says false if the sleeper is not quite asleep, or already being woken by
    /// somebody else, and has to be rung for again. Who has woken a sleeper does not do so again until it was awake.
    #[inline]
    pub fn try_ring(&self, rung: &mut Rung) -> bool {
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        state & ASLEEP == 0 || state == rung.0 || self.wake(state, rung)
    }

    /// Whether somebody can be seen sleeping who was not woken. Costs a load and no fence, so it may miss one that is
    /// just going to sleep: whoever relies on it alone has to ring later, or the sleeper to look again.
    #[inline]
    pub fn is_seen_asleep(&self, rung: &Rung) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state & ASLEEP != 0 && state != rung.0
    }

    #[cold]
    fn wake(&self, state: u32, rung: &mut Rung) -> bool {
        match futex::wake(&self.state, futex::Flags::empty(), 1) {
            Ok(0) => self.state.load(Ordering::Relaxed) != state,
            _ => {
                *rung = Rung(state);
                true
            }
        }
    }
}

/// Which sleep of a bell somebody has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rung(u32);

/// A page of bells: one's own, or a peer's.
pub struct Bells {
    page: NonNull<Bell>,
    /// Of one's own: to hand out.
    file: Option<OwnedFd>,
}

// SAFETY: atomics in memory that stays mapped for as long as this lives.
unsafe impl Send for Bells {}
// SAFETY: as above.
unsafe impl Sync for Bells {}

impl Bells {
    /// Bells for this process.
    ///
    /// # Errors
    /// If the machine has no memory or descriptors left.
    pub fn make() -> rustix::io::Result<Bells> {
        let file = rustix::fs::memfd_create("unrack-bells", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, PAGE)?;
        let mut bells = Bells::map(file.as_fd(), rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        bells.file = Some(file);
        Ok(bells)
    }

    /// Bells of a peer, to ring.
    ///
    /// # Errors
    /// If they are none, or cannot be mapped.
    pub fn of_peer(file: BorrowedFd<'_>) -> rustix::io::Result<Bells> {
        if !are_bells(file) {
            return Err(Errno::INVAL);
        }
        Bells::map(file, rustix::mm::ProtFlags::READ)
    }

    fn map(file: BorrowedFd<'_>, access: rustix::mm::ProtFlags) -> rustix::io::Result<Bells> {
        let flags = rustix::mm::MapFlags::SHARED;
        // SAFETY: a mapping where nothing was.
        let page = unsafe { rustix::mm::mmap(std::ptr::null_mut(), PAGE as usize, access, flags, file, 0)? };
        Ok(Bells { page: NonNull::new(page.cast()).expect("nothing is mapped at zero"), file: None })
    }

    /// One's own, to hand out.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect("only of one's own bells").as_fd()
    }

    /// # Panics
    /// If there are not that many ([`BELLS`]).
    pub fn get(&self, bell: usize) -> &Bell {
        assert!(bell < BELLS, "a process has {BELLS} bells");
        // SAFETY: a page of bells is mapped there, and any bytes are one.
        unsafe { self.page.add(bell).as_ref() }
    }
}

impl Drop for Bells {
    fn drop(&mut self) {
        // SAFETY: mapped by us; references to bells do not outlive us.
        unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), PAGE as usize) }.expect("it is mapped");
    }
}

const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Whether a file is a page that cannot shrink, and that only whoever made it writes.
pub fn are_bells(file: impl AsFd) -> bool {
    let sealed = rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS));
    sealed && rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_size == PAGE as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Every ring is heard: with no time-out, a lost one would hang.
    #[test]
    fn no_ring_is_lost() {
        let mine = Bells::make().expect("memory for a page");
        let theirs = Bells::of_peer(mine.file()).expect("bells can be handed out");
        let (sent, heard) = (AtomicU64::new(0), AtomicU64::new(0));
        const ROUNDS: u64 = 20_000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    while sent.load(Ordering::Acquire) < round {
                        mine.get(3).sleep(None, || sent.load(Ordering::Acquire) >= round);
                    }
                    heard.store(round, Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                sent.store(round, Ordering::Release);
                theirs.get(3).ring(None);
                while heard.load(Ordering::Acquire) < round {
                    std::hint::spin_loop();
                    if round % 7 == 0 {
                        std::thread::yield_now();
                    }
                }
            }
        });
    }

    #[test]
    fn sleeping_ends_in_time() {
        let bells = Bells::make().expect("memory for a page");
        bells.get(0).sleep(Some(Duration::from_millis(1)), || false);
        assert!(!bells.get(0).ring(None), "nobody sleeps");
    }

    /// A sleeper that says so and does not cannot hold up who rings for longer than they want.
    #[test]
    fn ringing_ends_in_time() {
        let bells = Bells::make().expect("memory for a page");
        bells.get(0).state.store(ASLEEP, Ordering::Relaxed);
        bells.get(0).ring(Some(Instant::now() + Duration::from_millis(1)));
    }

    #[test]
    fn nobody_else_writes_bells() {
        use rustix::fd::AsRawFd;
        let bells = Bells::make().expect("memory for a page");
        let again = format!("/proc/self/fd/{}", bells.file().as_raw_fd());
        let again = std::fs::OpenOptions::new().read(true).write(true).open(again).expect("one's own file");
        let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        assert!(Bells::map(again.as_fd(), access).is_err());
        assert!(rustix::fs::ftruncate(&again, 0).is_err());
        assert!(rustix::io::write(&again, &[1]).is_err());
    }

    #[test]
    fn what_is_no_page_of_bells_is_refused() {
        let file = rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, PAGE).unwrap();
        assert!(!are_bells(&file), "not sealed");
        rustix::fs::fcntl_add_seals(&file, SEALS).unwrap();
        assert!(are_bells(&file));
        assert!(!are_bells(std::fs::File::open("/dev/null").unwrap()));
    }
}
