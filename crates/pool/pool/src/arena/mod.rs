//! Buffers in leased sections (DRack §4.2; HydraRPC §5.4): the two-tier allocator of a process.
//!
//! The manager leases segments. An arena divides their sections into buffers of one size each, and the caches of
//! threads keep a few buffers of each size. Taking a buffer from a [`Cache`] accesses no data that threads share, and
//! taking one from the [`Arena`] costs one compare-and-swap. The arena locks its books only when a section has no free
//! buffers left, or becomes entirely free. It sends a request to the manager only when it has no free section left.
//!
//! | module | idea |
//! |---|---|
//! | [`classes`] | sizes of buffers |
//! | [`list`] | the free buffers of a section, lock-free |
//! | [`section`] | one section: with buffers of one size, or the first section of a large buffer |
//! | [`table`] | all sections that the arena has ever held |
//! | [`books`] | segments that the arena holds, and the free sections in them |
//! | [`cache`] | free buffers that one thread keeps |
//!
//! Only the process that owns an arena allocates and frees in it. All data except the buffers is in its private memory.

mod books;
mod cache;
mod classes;
mod list;
mod section;
mod table;

pub use cache::Cache;
pub use classes::MOST_SMALL;

use crate::client::{Channel, Client, Counter, Error, Grantee};
use crate::wire::Access;
use crate::{LINE, SECTION};
use books::Books;
use classes::{CLASSES, class_of, size_of_class};
use section::ArenaSection;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use table::Table;

/// Allocator of a process's buffers. All its buffers are shared with the same peers. Clones refer to the same arena.
#[derive(Clone)]
pub struct Arena {
    inner: Arc<ArenaState>,
}

struct ArenaState {
    client: Client,
    /// Address at which the pool's address space begins.
    base: NonNull<u8>,
    sections: Arc<Table>,
    /// Section from which each class takes its buffers; null if there is none.
    current: [AtomicPtr<ArenaSection>; CLASSES],
    books: Mutex<Books>,
}

// SAFETY: `base` is only an address, and all other fields may be sent and shared.
unsafe impl Send for ArenaState {}
// SAFETY: a shared reference gives out `base` only as an address, and all other fields may be shared.
unsafe impl Sync for ArenaState {}

/// Bytes of the pool, which belong to the owner of the buffer until [`Arena::free`] frees them. They are aligned to
/// cache lines, and a whole number of lines.
///
/// Dropping a buffer does not free it. A program may drop the buffer and keep only its offset, for example in a message
/// to a peer; [`Arena::buffer`] makes the buffer again from the offset.
#[derive(Debug)]
#[must_use = "a buffer that is dropped is not free: give it back to its arena"]
pub struct Buffer {
    offset: u64,
    bytes: u64,
    at: NonNull<u8>,
}

// SAFETY: a buffer is the only owner of its bytes in this process, as a box is.
unsafe impl Send for Buffer {}
// SAFETY: a shared reference gives only the address of the bytes.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Makes a buffer of memory that belongs to no arena, for code that expects buffers. The caller chooses the
    /// buffer's offset. The buffer must be given back to the caller, not to an arena.
    ///
    /// # Safety
    /// Until the buffer is given back, the bytes are readable and writable, aligned to lines, and a whole number of
    /// lines.
    pub unsafe fn of_no_arena(offset: u64, at: NonNull<u8>, bytes: u64) -> Buffer {
        Buffer { offset, bytes, at }
    }

    /// Returns the buffer's offset in the pool, which identifies it.
    #[inline(always)]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of usable bytes: a whole number of lines, and at least the number that was asked for.
    #[inline(always)]
    pub fn capacity(&self) -> u64 {
        self.bytes
    }

    /// Returns the address of the first byte. The bytes are readable and writable until the buffer is freed. Their
    /// initial contents are arbitrary.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

/// Use of an arena's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Size of the sections that the arena has leased, in bytes.
    pub held_bytes: u64,
    /// Size of the buffers in use, in bytes, including those that caches keep.
    pub used_bytes: u64,
}

impl Client {
    /// Makes an arena of buffers, which has no sections yet.
    pub fn arena(&self) -> Arena {
        Arena::new(self)
    }
}

impl Arena {
    /// Makes an arena without sections.
    pub fn new(client: &Client) -> Arena {
        let sections = Arc::new(Table::new(client.pool().space_bytes / SECTION));
        let counter: Weak<dyn Counter> = Arc::downgrade(&(sections.clone() as Arc<dyn Counter>));
        client.add_counter(counter);
        Arena {
            inner: Arc::new(ArenaState {
                client: client.clone(),
                base: NonNull::new(client.space().pointer(0)).expect("no space is at zero"),
                sections,
                current: [const { AtomicPtr::new(std::ptr::null_mut()) }; CLASSES],
                books: Mutex::new(Books::new(client.pool().region_sections)),
            }),
        }
    }

    /// Allocates a buffer of at least `bytes` bytes.
    ///
    /// # Errors
    /// If the pool or the machine has no memory left, or the manager is needed but gone.
    #[inline]
    pub fn alloc(&self, bytes: u64) -> Result<Buffer, Error> {
        self.inner.client.maker().check()?;
        if bytes > MOST_SMALL {
            return self.alloc_large(bytes);
        }
        let class = class_of(bytes);
        let mut taken = 0;
        self.take(class, 1, |offset| taken = offset)?;
        Ok(self.buffer_at(taken, size_of_class(class)))
    }

    /// Frees a buffer. Neither this process nor its peers may use the buffer's bytes afterwards.
    ///
    /// # Panics
    /// If the buffer does not belong to this arena, or is already free.
    #[inline]
    pub fn free(&self, buffer: Buffer) {
        if !self.is_here() {
            return;
        }
        let section = self.section_of(buffer.offset);
        match section.list.class() {
            Some(class) => self.give(section, class, &[section.number(class, buffer.offset)]),
            None => self.free_large(section, buffer.offset),
        }
    }

    /// Makes a buffer again from its offset, after the buffer was taken and dropped.
    ///
    /// # Safety
    /// The caller owns the buffer that begins at the offset, and makes it only once.
    ///
    /// # Panics
    /// If no buffer of this arena begins at the offset.
    pub unsafe fn buffer(&self, offset: u64) -> Buffer {
        let section = self.section_of(offset);
        let bytes = match section.list.class() {
            Some(class) => {
                section.number(class, offset);
                size_of_class(class)
            }
            None => section.large() * SECTION,
        };
        assert!(bytes > 0, "no buffer begins at {offset:#x}");
        self.buffer_at(offset, bytes)
    }

    /// Makes a cache of this arena's buffers, for one thread.
    pub fn cache(&self) -> Cache {
        Cache::new(self.clone())
    }

    /// Lets the peer of a channel map all current and future segments of this arena. A new segment is granted before a
    /// buffer of it is handed out. The share ends with the channel.
    ///
    /// # Errors
    /// If the peer is gone, does not read its messages, or was already granted too many segments.
    pub fn share_with(&self, channel: &Channel, access: Access) -> Result<(), Error> {
        self.inner.client.maker().check()?;
        self.books().share_with(channel.grantee(), access)
    }

    /// Sets the size of the free sections that are kept for later allocations, in bytes; it is at least a region. Free
    /// sections beyond it are returned to the pool now. Keeping sections avoids page faults in this process and its
    /// peers when the memory is used again.
    pub fn keep_spare(&self, bytes: u64) {
        if !self.is_here() {
            return;
        }
        self.books().keep_spare(u32::try_from(bytes / SECTION).unwrap_or(u32::MAX));
    }

    /// Returns how much of the arena's memory is in use.
    pub fn usage(&self) -> Usage {
        let held_bytes = self.books().held_bytes();
        Usage { held_bytes, used_bytes: self.inner.sections.used_bytes() }
    }

    /// Returns whether this process made the arena, rather than a parent of this process.
    fn is_here(&self) -> bool {
        self.inner.client.maker().is_here()
    }

    #[inline(always)]
    fn buffer_at(&self, offset: u64, bytes: u64) -> Buffer {
        // SAFETY: the address is inside the space, which is one reservation.
        Buffer { offset, bytes, at: unsafe { self.inner.base.add(offset as usize) } }
    }

    /// Takes at least one and up to `most` buffers of a class.
    #[inline]
    fn take(&self, class: usize, most: u32, mut taken: impl FnMut(u64)) -> Result<(), Error> {
        loop {
            let current = self.inner.current[class].load(Ordering::Acquire);
            if let Some(section) = known(current)
                && section.list.take(class, most, |buffer| taken(section.place(class, buffer))) > 0
            {
                return Ok(());
            }
            self.replenish(class, current)?;
        }
    }

    /// Finds another section for a class whose current section has no free buffer.
    #[cold]
    fn replenish(&self, class: usize, exhausted: *mut ArenaSection) -> Result<(), Error> {
        let mut books = self.books();
        let current = &self.inner.current[class];
        if current.load(Ordering::Relaxed) != exhausted {
            // Another thread has already replaced the section.
            return Ok(());
        }
        if known(exhausted)
            .is_some_and(|section| section.list.class() == Some(class) && section.list.free() > 0)
        {
            return Ok(());
        }
        let next = match books.take_partial(class, &self.inner.sections) {
            Some(partial) => partial,
            None => {
                let offset = match books.take_sections(1) {
                    Some(offset) => offset,
                    None => {
                        self.close_unused(&mut books);
                        books.take_sections_or_lease(1, &self.inner.client)?
                    }
                };
                let section = self.inner.sections.make(offset);
                known(section).expect("just made").open(class);
                section
            }
        };
        current.store(next, Ordering::Release);
        Ok(())
    }

    /// Closes those current sections of classes that have no buffer in use, because the sections are needed elsewhere.
    fn close_unused(&self, books: &mut Books) {
        for current in &self.inner.current {
            let section = current.load(Ordering::Relaxed);
            if known(section).is_some_and(ArenaSection::close) {
                current.store(std::ptr::null_mut(), Ordering::Release);
                books.give_sections(known(section).expect("just closed").offset, 1);
            }
        }
    }

    #[inline]
    fn give(&self, section: &ArenaSection, class: usize, buffers: &[u16]) {
        let given = section.list.give(buffers);
        if given.first || given.free == classes::count_of_class(class) {
            self.after_give(section, class);
        }
    }

    /// Handles a section that had no free buffer and has one now, or whose buffers are all free.
    #[cold]
    fn after_give(&self, section: &ArenaSection, class: usize) {
        let mut books = self.books();
        let current = self.inner.current[class].load(Ordering::Relaxed);
        if std::ptr::eq(current, section) || section.list.class() != Some(class) {
            return;
        }
        if section.close() {
            books.drop_partial(class, section.offset);
            books.give_sections(section.offset, 1);
            books.give_back_excess();
        } else {
            books.add_partial(class, section.offset);
        }
    }

    fn alloc_large(&self, bytes: u64) -> Result<Buffer, Error> {
        let sections = bytes.div_ceil(SECTION);
        let count = u32::try_from(sections).unwrap_or(u32::MAX);
        let mut books = self.books();
        let offset = match books.take_sections(count) {
            Some(offset) => offset,
            None => {
                self.close_unused(&mut books);
                books.take_sections_or_lease(count, &self.inner.client)?
            }
        };
        known(self.inner.sections.make(offset)).expect("just made").set_large(sections);
        Ok(self.buffer_at(offset, sections * SECTION))
    }

    fn free_large(&self, section: &ArenaSection, offset: u64) {
        let sections = section.large();
        assert!(sections > 0 && section.offset == offset, "no buffer begins at {offset:#x}");
        let mut books = self.books();
        section.set_large(0);
        books.give_sections(offset, sections as u32);
        books.give_back_excess();
    }

    /// Returns the section that contains an offset.
    #[inline(always)]
    fn section_of(&self, offset: u64) -> &ArenaSection {
        self.inner
            .sections
            .get(offset)
            .unwrap_or_else(|| panic!("{offset:#x} is in no section of this arena"))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.inner.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dereferences a pointer to a section of a live arena; returns `None` for null.
#[inline(always)]
fn known<'a>(section: *mut ArenaSection) -> Option<&'a ArenaSection> {
    // SAFETY: the table makes the sections and drops them with the arena, which the caller borrows.
    unsafe { section.as_ref() }
}

/// Checks that buffers consist of whole lines, so that no line belongs to two buffers.
const _: () = assert!(size_of_class(0) == LINE as u64);

/// Peers that an arena's segments are granted to, and the access of each peer.
type GrantedPeers = Vec<(Grantee, Access)>;
