//! A pool in a folder of its own, two endpoints on it, and what its manager lists.

use std::time::{Duration, Instant};
use unrack_lend::{Endpoint, LentBuffer, Listener, Loan, PeerLink};
use unrack_pool::cache_control::{Incoherent, MemoryKind};
use unrack_pool::wire::ListingEntry;
use unrack_pool::{Client, Manager, manager};
use unrack_testing::{TestFolder, TestRequirement, skip};

/// Longest time that an event may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns all kinds of memory that this machine has.
pub(crate) fn modes() -> Vec<MemoryKind> {
    let flushes = Incoherent::detect();
    if let Err(why) = &flushes {
        skip(TestRequirement::Flush, why);
    }
    let incoherent = flushes.is_ok().then_some(MemoryKind::Incoherent);
    [MemoryKind::Coherent, MemoryKind::Model].into_iter().chain(incoherent).collect()
}

pub(crate) struct Pool {
    _manager: Manager,
    pub(crate) folder: TestFolder,
    /// A client that only looks.
    pub(crate) observer: Client,
}

impl Pool {
    pub(crate) fn new(mode: MemoryKind) -> Pool {
        let folder = TestFolder::new("lend");
        let mut options = manager::Options::new(folder.join("pool"), "64MiB".parse().expect("a size"));
        options.mode = mode;
        // The processes of a test are one process.
        options.per_client = Some("100%".parse().expect("a share"));
        let manager = Manager::start(&options).expect("a manager starts");
        let observer = Client::connect_as(folder.join("pool"), "observer").expect("it connects");
        Pool { _manager: manager, folder, observer }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::connect(self.folder.join("pool")).expect("the pool takes it")
    }

    pub(crate) fn books(&self) -> Books {
        let mut books = Books::default();
        for one in self.observer.list().expect("the manager is there") {
            match one {
                ListingEntry::Client { .. } => books.clients += 1,
                ListingEntry::Segment { .. } => books.segments += 1,
                ListingEntry::Service { .. } => books.services += 1,
                ListingEntry::Channel { .. } => books.channels += 1,
                _ => {}
            }
        }
        books
    }

    pub(crate) fn segments(&self) -> usize {
        self.books().segments
    }

    /// Waits until all is as it was.
    pub(crate) fn come_back_to(&self, before: Books) {
        eventually(|| self.books() == before, || format!("{:?}, and not {before:?}", self.books()));
    }
}

/// Number of things that the manager lists.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Books {
    clients: usize,
    segments: usize,
    services: usize,
    channels: usize,
}

/// Owner and reader, with the link as each of them has it.
pub(crate) struct Pair {
    pub(crate) listener: Listener,
    pub(crate) owner: PeerLink,
    pub(crate) reader: PeerLink,
}

impl Pair {
    pub(crate) fn new(pool: &Pool) -> Pair {
        let listener = pool.endpoint().listen("owner").expect("the name is free");
        let reader = pool.endpoint().open("owner", PATIENCE).expect("it listens");
        let owner = listener.accept(PATIENCE).expect("the manager is there").expect("it was opened");
        Pair { listener, owner, reader }
    }

    pub(crate) fn buffer(&self, text: &[u8]) -> LentBuffer {
        filled(self.listener.endpoint().buffer(text.len() as u64).expect("there is room"), text)
    }
}

pub(crate) fn filled(buffer: LentBuffer, text: &[u8]) -> LentBuffer {
    // SAFETY: as long as it was asked to be, and not lent yet.
    unsafe { buffer.as_ptr().as_ptr().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
    buffer
}

pub(crate) fn bytes(loan: &Loan) -> &[u8] {
    // SAFETY: nobody writes it meanwhile in these tests.
    unsafe { std::slice::from_raw_parts(loan.as_ptr().as_ptr(), loan.len() as usize) }
}

pub(crate) fn eventually(mut holds: impl FnMut() -> bool, otherwise: impl Fn() -> String) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{}", otherwise());
        std::thread::yield_now();
    }
}
