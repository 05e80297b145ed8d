//! Buffers over leased sections (DRack §4.2; HydraRPC §5.4): the two-tier allocator of a process.
//!
//! The manager leases segments; an arena divides their sections into buffers of one size each, and caches of
//! threads keep a few buffers of each size. Taking a buffer from a [`Cache`] touches nothing that is shared
//! between threads; taking one from the [`Arena`] is one compare-and-swap; only when a section is used up, or all of
//! it is free, the arena's books are locked, and only when there is no section left the manager is asked.
//!
//! | module | idea |
//! |---|---|
//! | [`classes`] | sizes of buffers |
//! | [`list`] | the free buffers of a section, lock-free |
//! | [`section`] | one section: of buffers of one size, or the first of a large buffer |
//! | [`table`] | all sections that were ever held |
//! | [`books`] | segments that are held, and which of their sections are free |
//! | [`cache`] | the buffers that one thread keeps |
//!
//! Only the process that owns an arena allocates and frees in it, and all but the buffers is in its private memory.

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
use section::Section;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use table::Table;

/// Buffers of a process, all shared with the same peers. Clones are the same arena.
#[derive(Clone)]
pub struct Arena {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    /// Where the pool's address space begins.
    base: NonNull<u8>,
    sections: Arc<Table>,
    /// Where each class takes its buffers from.
    current: [AtomicPtr<Section>; CLASSES],
    books: Mutex<Books>,
}

// SAFETY: `base` is an address; all else may be sent and shared.
unsafe impl Send for Inner {}
// SAFETY: a shared one gives out `base` as an address only; all else may be shared.
unsafe impl Sync for Inner {}

/// Some bytes of the pool, aligned to lines and whole lines long, until it is freed: [`Arena::free`].
///
/// Dropping it does not free it, and it may be named by its offset alone in between
/// ([`Arena::buffer`]): what is sent to a peer is the offset.
#[derive(Debug)]
#[must_use = "a buffer that is dropped is not free: give it back to its arena"]
pub struct Buffer {
    offset: u64,
    bytes: u64,
    at: NonNull<u8>,
}

// SAFETY: a buffer is the only owner of its bytes in this process, as a box is.
unsafe impl Send for Buffer {}
// SAFETY: a shared one only tells where it is.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Bytes that are no arena's, for whoever takes buffers and has other memory: under a name of its own. It is given
    /// back to whoever made it.
    ///
    /// # Safety
    /// The bytes are readable and writable until then, aligned to lines and whole lines long.
    pub unsafe fn of_no_arena(offset: u64, at: NonNull<u8>, bytes: u64) -> Buffer {
        Buffer { offset, bytes, at }
    }

    /// What it is called in the pool.
    #[inline(always)]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that may be used: at least what was asked for, and whole lines.
    #[inline(always)]
    pub fn capacity(&self) -> u64 {
        self.bytes
    }

    /// Its first byte. Readable and writable until it is freed; contents at first are anything.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

/// How much of an arena is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes of the sections that it leased.
    pub held_bytes: u64,
    /// Bytes of buffers that are taken, those in caches included.
    pub used_bytes: u64,
}

impl Arena {
    /// An arena without sections.
    pub fn new(client: &Client) -> Arena {
        let sections = Arc::new(Table::new(client.pool().space_bytes / SECTION));
        let counter: Weak<dyn Counter> = Arc::downgrade(&(sections.clone() as Arc<dyn Counter>));
        client.add_counter(counter);
        Arena {
            inner: Arc::new(Inner {
                client: client.clone(),
                base: NonNull::new(client.space().pointer(0)).expect("no space is at zero"),
                sections,
                current: [const { AtomicPtr::new(std::ptr::null_mut()) }; CLASSES],
                books: Mutex::new(Books::new(client.pool().region_sections)),
            }),
        }
    }

    /// A buffer of at least so many bytes.
    ///
    /// # Errors
    /// If the pool or the machine is full, or the manager gone when it is needed.
    #[inline]
    pub fn alloc(&self, bytes: u64) -> Result<Buffer, Error> {
        if bytes > MOST_SMALL {
            return self.alloc_large(bytes);
        }
        let class = class_of(bytes);
        let mut taken = 0;
        self.take(class, 1, |offset| taken = offset)?;
        Ok(self.buffer_at(taken, size_of_class(class)))
    }

    /// Gives a buffer back. Nobody may use its bytes any more, peers neither.
    ///
    /// # Panics
    /// If it is not this arena's, or free already.
    #[inline]
    pub fn free(&self, buffer: Buffer) {
        let section = self.section_of(buffer.offset);
        match section.list.class() {
            Some(class) => self.give(section, class, &[section.number(class, buffer.offset)]),
            None => self.free_large(section, buffer.offset),
        }
    }

    /// A buffer that was taken and then forgotten but for its offset.
    ///
    /// # Safety
    /// The caller owns the buffer that begins there, and makes it once.
    ///
    /// # Panics
    /// If none of this arena begins there.
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

    /// A thread's own cache of this arena's buffers.
    pub fn cache(&self) -> Cache {
        Cache::new(self.clone())
    }

    /// Lets the other side of a channel map all of this arena: what it has and what it will have, each segment
    /// before a buffer of it is handed out. It ends with the channel.
    ///
    /// # Errors
    /// If the peer is gone, does not read what it is told, or was granted too many segments.
    pub fn share_with(&self, channel: &Channel, access: Access) -> Result<(), Error> {
        self.books().share_with(channel.grantee(), access)
    }

    /// How much of it is used.
    pub fn usage(&self) -> Usage {
        let held_bytes = self.books().held_bytes();
        Usage { held_bytes, used_bytes: self.inner.sections.used_bytes() }
    }

    #[inline(always)]
    fn buffer_at(&self, offset: u64, bytes: u64) -> Buffer {
        // SAFETY: inside the space, which is one reservation.
        Buffer { offset, bytes, at: unsafe { self.inner.base.add(offset as usize) } }
    }

    /// Takes up to `most` buffers of a class, at least one.
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

    /// The section that a class takes from has nothing any more: finds another.
    #[cold]
    fn replenish(&self, class: usize, exhausted: *mut Section) -> Result<(), Error> {
        let mut books = self.books();
        let current = &self.inner.current[class];
        if current.load(Ordering::Relaxed) != exhausted {
            // Somebody else did.
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

    /// Sections that classes take from, and of which nothing is used, are needed more elsewhere.
    fn close_unused(&self, books: &mut Books) {
        for current in &self.inner.current {
            let section = current.load(Ordering::Relaxed);
            if known(section).is_some_and(Section::close) {
                current.store(std::ptr::null_mut(), Ordering::Release);
                books.give_sections(known(section).expect("just closed").offset, 1);
            }
        }
    }

    #[inline]
    fn give(&self, section: &Section, class: usize, buffers: &[u16]) {
        let given = section.list.give(buffers);
        if given.first || given.free == classes::count_of_class(class) {
            self.after_give(section, class);
        }
    }

    /// A section that was used up has a free buffer, or all of it is free.
    #[cold]
    fn after_give(&self, section: &Section, class: usize) {
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

    fn free_large(&self, section: &Section, offset: u64) {
        let sections = section.large();
        assert!(sections > 0 && section.offset == offset, "no buffer begins at {offset:#x}");
        let mut books = self.books();
        section.set_large(0);
        books.give_sections(offset, sections as u32);
        books.give_back_excess();
    }

    /// The section in which an offset is.
    #[inline(always)]
    fn section_of(&self, offset: u64) -> &Section {
        self.inner
            .sections
            .get(offset)
            .unwrap_or_else(|| panic!("{offset:#x} is in no section of this arena"))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.inner.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A section of a live arena, if there is one.
#[inline(always)]
fn known<'a>(section: *mut Section) -> Option<&'a Section> {
    // SAFETY: sections are made by the table and dropped with the arena, which whoever asks borrows.
    unsafe { section.as_ref() }
}

/// Buffers are whole lines, and no line is in two of them.
const _: () = assert!(size_of_class(0) == LINE as u64);

/// Who is granted an arena's segments.
type Shares = Vec<(Grantee, Access)>;
