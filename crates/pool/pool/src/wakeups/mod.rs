//! Words on which threads sleep, and by which other threads wake them.
//!
//! Each process has a page of wakeups. It maps the page writable before any other process has the descriptor, and then
//! seals the file. After that, the kernel lets no other process map the page writable, so no peer can suppress the
//! rings of another peer by writing the words. A peer reads whether a thread sleeps, and makes a system call only if
//! one does. Wakeups are coherent memory of one host and never go through cache control.
//!
//! Only the sleeper writes the word, so a ring leaves no trace in it. A ring may therefore come before the sleeper is
//! fully asleep. In that case it is repeated until the kernel reports that it woke a thread, or the word shows that no
//! thread sleeps. A peer is woken for a limited time only.
//!
//! Any process that may read a word may also sleep on it, so a ring wakes all sleepers. A peer can still suppress a
//! ring: if it sleeps on the word just when the owner is about to sleep, the ring wakes that peer and seems to have
//! worked. Therefore sleepers check again by themselves after [`LOST_RING`].

#[cfg_attr(loom, path = "futex_model.rs")]
mod futex;
mod wakeup;

pub use wakeup::{PeerWakeup, WakesSent, Wakeup};

use crate::{LINE, PAGE};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use std::ptr::NonNull;
use std::time::Duration;

/// Longest time that a thread should sleep before it checks by itself for work. A ring that a peer suppressed is
/// noticed only after this time. One check per second costs a thousandth of a percent of a processor.
pub const LOST_RING: Duration = Duration::from_secs(1);

/// Number of wakeups of a process.
pub const WAKEUPS: usize = PAGE as usize / LINE;

const _: () = assert!(size_of::<Wakeup>() == LINE && align_of::<Wakeup>() == LINE);

/// A process's page of wakeups, on which its threads sleep.
pub struct Wakeups {
    page: Page,
    /// File of the page, which peers receive.
    file: OwnedFd,
}

/// A peer's page of wakeups. It is `None` for a peer on another host, because that peer polls and its wakeups are never
/// rung from here.
pub struct PeerWakeups(Option<Page>);

/// Stands in for the wakeups of all peers on other hosts. No thread sleeps on it.
#[cfg(not(loom))]
static FAR: Wakeup = Wakeup::new();

/// A page of wakeups that is mapped in this process.
struct Page(NonNull<Wakeup>);

// SAFETY: the page points to atomics in memory that stays mapped as long as the page lives.
unsafe impl Send for Page {}
// SAFETY: a shared page gives access only to atomics, in memory that stays mapped as long as the page lives.
unsafe impl Sync for Page {}

impl Wakeups {
    /// Makes the wakeups of this process.
    ///
    /// # Errors
    /// If the machine has no memory or descriptors left.
    pub fn make() -> rustix::io::Result<Wakeups> {
        let file =
            rustix::fs::memfd_create("unrack-wakeups", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, PAGE)?;
        let page = Page::map(file.as_fd(), rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        Ok(Wakeups { page, file })
    }

    /// Returns the file of the page, which is to be sent to peers.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the wakeup with this index.
    ///
    /// # Panics
    /// If the index is not below [`WAKEUPS`].
    pub fn get(&self, wakeup: usize) -> &Wakeup {
        self.page.get(wakeup)
    }
}

impl PeerWakeups {
    /// Maps the wakeups of a peer, so that this process can ring them.
    ///
    /// # Errors
    /// If the file is not a page of wakeups, or cannot be mapped.
    pub fn new(file: BorrowedFd<'_>) -> rustix::io::Result<PeerWakeups> {
        if !are_wakeups(file) {
            return Err(Errno::INVAL);
        }
        Page::map(file, rustix::mm::ProtFlags::READ).map(|page| PeerWakeups(Some(page)))
    }

    /// Makes the wakeups of a peer on another host.
    pub fn far() -> PeerWakeups {
        PeerWakeups(None)
    }

    /// Returns the peer's wakeup with this index.
    ///
    /// # Panics
    /// As [`Wakeups::get`].
    pub fn get(&self, wakeup: usize) -> PeerWakeup<'_> {
        match &self.0 {
            Some(page) => PeerWakeup::new(page.get(wakeup)),
            #[cfg(not(loom))]
            None => PeerWakeup::new(&FAR),
            #[cfg(loom)]
            None => unreachable!("models have one host"),
        }
    }
}

impl Page {
    fn map(file: BorrowedFd<'_>, access: rustix::mm::ProtFlags) -> rustix::io::Result<Page> {
        let flags = rustix::mm::MapFlags::SHARED;
        // SAFETY: the kernel picks the address, so the new mapping replaces no other mapping.
        let page = unsafe { rustix::mm::mmap(std::ptr::null_mut(), PAGE as usize, access, flags, file, 0)? };
        Ok(Page(NonNull::new(page.cast()).expect("nothing is mapped at zero")))
    }

    fn get(&self, wakeup: usize) -> &Wakeup {
        assert!(wakeup < WAKEUPS, "a process has {WAKEUPS} wakeups");
        // SAFETY: a page of wakeups is mapped at the address, and any bytes are a valid wakeup.
        unsafe { self.0.add(wakeup).as_ref() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: `map` made the mapping, and references to wakeups do not outlive the page.
        unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), PAGE as usize) }.expect("it is mapped");
    }
}

const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Returns whether a file is one page that cannot shrink and that only its maker can write.
pub fn are_wakeups(file: impl AsFd) -> bool {
    let sealed = rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS));
    sealed && rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_size == PAGE as i64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Checks that every ring is heard: without a timeout, the test would hang if a ring were lost.
    #[test]
    fn no_ring_is_lost() {
        let mine = Wakeups::make().expect("memory for a page");
        let theirs = PeerWakeups::new(mine.file()).expect("wakeups can be handed out");
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
                while !theirs.get(3).wake() {}
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
        let wakeups = Wakeups::make().expect("memory for a page");
        wakeups.get(0).sleep(Some(Duration::from_millis(1)), || false);
        assert!(!wakeups.get(0).wake(), "nobody sleeps");
    }

    #[test]
    fn nobody_else_writes_wakeups() {
        use rustix::fd::AsRawFd;
        let wakeups = Wakeups::make().expect("memory for a page");
        let again = format!("/proc/self/fd/{}", wakeups.file().as_raw_fd());
        let again = std::fs::OpenOptions::new().read(true).write(true).open(again).expect("one's own file");
        let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        assert!(Page::map(again.as_fd(), access).is_err());
        assert!(rustix::fs::ftruncate(&again, 0).is_err());
        assert!(rustix::io::write(&again, &[1]).is_err());
    }

    #[test]
    fn what_is_no_page_of_wakeups_is_refused() {
        let file = rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, PAGE).unwrap();
        assert!(!are_wakeups(&file), "not sealed");
        rustix::fs::fcntl_add_seals(&file, SEALS).unwrap();
        assert!(are_wakeups(&file));
        assert!(!are_wakeups(std::fs::File::open("/dev/null").unwrap()));
    }
}
