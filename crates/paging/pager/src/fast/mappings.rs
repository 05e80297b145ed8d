//! System calls that change the program's address space. Each is made together with the update of the bookkeeping, while the lock is held.

use super::engine::lock;
use super::outcome::CallEffect;
use super::prepare::hold_some;
use super::raw::{self, Args, is_error};
use super::space::FastSpace;
use super::thread::Thread;
use crate::gate;
use crate::sys::PAGE;
use rustix::io::Errno;

const MADV_GUARD_INSTALL: i32 = 102;

/// Handles calls that change the address space; returns `None` for other calls.
pub(super) fn outcome(thread: &Thread, number: i64, args: Args) -> Option<CallEffect> {
    let made = match number {
        libc::SYS_mmap => lock().space.mmap(args),
        libc::SYS_munmap => lock().space.munmap(args),
        libc::SYS_mremap => lock().space.mremap(args),
        libc::SYS_brk => lock().space.brk(args),
        libc::SYS_madvise => madvise(thread, args),
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
            let _still = lock();
            make(number, args)
        }
        // Locking would keep memory local that the pager has to evict. The results of a program do not depend on locking.
        libc::SYS_mlock
        | libc::SYS_mlock2
        | libc::SYS_munlock
        | libc::SYS_mlockall
        | libc::SYS_munlockall => 0,
        _ => return None,
    };
    Some(CallEffect::Made(made))
}

fn make(number: i64, args: Args) -> isize {
    // SAFETY: the program's own call.
    unsafe { raw::call(number as usize, args) }
}

fn madvise(thread: &Thread, args: Args) -> isize {
    let [start, len, advice, ..] = args;
    match advice as i32 {
        libc::MADV_DONTNEED | libc::MADV_DONTNEED_LOCKED | MADV_GUARD_INSTALL => {
            lock().space.drop_contents(args)
        }
        // After this call, the kernel could drop the pages at any time without a report. Therefore the pager has it drop them at once.
        libc::MADV_FREE => {
            let mut engine = lock();
            let result = make(libc::SYS_madvise, args);
            if is_error(result) {
                return result;
            }
            engine.space.drop_contents([start, len, libc::MADV_DONTNEED as usize, 0, 0, 0])
        }
        libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE => {
            hold_some(thread, start, len);
            make(libc::SYS_madvise, args)
        }
        // Large, merged and swapped pages cannot be evicted.
        libc::MADV_HUGEPAGE | libc::MADV_MERGEABLE | libc::MADV_COLD | libc::MADV_PAGEOUT => 0,
        libc::MADV_COLLAPSE => raw::error(Errno::INVAL),
        _ => make(libc::SYS_madvise, args),
    }
}

impl FastSpace {
    fn mmap(&mut self, args: Args) -> isize {
        let result = make(libc::SYS_mmap, args);
        if !is_error(result) {
            let (start, end) = span(result as usize, args[1]);
            self.forget_mapping(start, end);
        }
        result
    }

    fn munmap(&mut self, args: Args) -> isize {
        let result = make(libc::SYS_munmap, args);
        if !is_error(result) {
            let (start, end) = span(args[0], args[1]);
            self.forget_mapping(start, end);
        }
        result
    }

    fn brk(&mut self, args: Args) -> isize {
        let result = make(libc::SYS_brk, args);
        let now = result as usize;
        if now < self.brk {
            self.forget_mapping(now.next_multiple_of(PAGE), self.brk.next_multiple_of(PAGE));
        }
        self.brk = now;
        result
    }

    /// Makes an `madvise` call that drops contents. The kernel drops them even if the range has holes, for which it reports an error.
    fn drop_contents(&mut self, args: Args) -> isize {
        let result = make(libc::SYS_madvise, args);
        if !is_error(result) || result == raw::error(Errno::NOMEM) {
            let (start, end) = span(args[0], args[1]);
            self.forget(start, end);
        }
        result
    }

    fn mremap(&mut self, args: Args) -> isize {
        const ELSEWHERE: i32 = libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        let [old, old_len, new_len, flags, ..] = args;
        let flags = flags as i32;
        if flags & ELSEWHERE == 0 {
            let mut stay = args;
            stay[3] &= !(libc::MREMAP_MAYMOVE as usize);
            let result = self.mremap_here(stay);
            if flags & libc::MREMAP_MAYMOVE == 0 || result != raw::error(Errno::NOMEM) {
                return result;
            }
        }
        self.mremap_away(args, span(old, old_len), new_len, flags & libc::MREMAP_DONTUNMAP != 0)
    }

    fn mremap_here(&mut self, args: Args) -> isize {
        let [old, old_len, new_len, ..] = args;
        let mut result = make(libc::SYS_mremap, args);
        if result == raw::error(Errno::FAULT) && self.register_whole(old, old_len) {
            result = make(libc::SYS_mremap, args);
        }
        let (old_end, new_end) = (span(old, old_len).1, span(old, new_len).1);
        if !is_error(result) && new_end < old_end {
            self.forget_mapping(new_end, old_end);
        } else if !is_error(result) && self.registered.contains(old_end - 1) {
            self.register_again(old_end, new_end);
        }
        result
    }

    /// Moves a mapping. The kernel drops the registration of moved memory, and of neighbours that it joins. Therefore the memory is moved
    /// unregistered, while no thread can use it, and is registered again before any thread can know its new address.
    fn mremap_away(
        &mut self,
        args: Args,
        (old, old_end): (usize, usize),
        new_len: usize,
        stays: bool,
    ) -> isize {
        let registered = self.registered.parts(old, old_end);
        for (start, end) in &registered {
            if self.memory.uffd.unregister(*start, end - start).is_err() {
                gate::die(self.control, "internal error: memory cannot be unregistered. Please report this");
            }
        }
        let result = make(libc::SYS_mremap, args);
        if is_error(result) || stays {
            registered.iter().for_each(|(start, end)| self.register_again(*start, *end));
        }
        if !is_error(result) && old < old_end {
            let (new, new_end) = span(result as usize, new_len);
            self.moved((old, old_end), (new, new_end), !registered.is_empty(), stays);
        }
        result
    }

    /// Registers all of a range of which only a part is registered, because the kernel treats such parts as two mappings. Returns whether
    /// that changed the registration.
    fn register_whole(&mut self, start: usize, len: usize) -> bool {
        let (start, end) = span(start, len);
        let any = self.registered.next(start).is_some_and(|range| range.0 < end);
        any && !self.registered.covers(start, end) && {
            self.register(start, end);
            self.registered.covers(start, end)
        }
    }

    /// Updates the bookkeeping for pages that moved.
    fn moved(&mut self, from: (usize, usize), to: (usize, usize), registered: bool, stays: bool) {
        let ((old, old_end), (new, new_end)) = (from, to);
        self.forget_mapping(new, new_end);
        let kept_end = old_end.min(old + (new_end - new));
        self.forget(kept_end, old_end);
        for id in self.tracked(old, kept_end) {
            let address = self.pages.table.get(id).address;
            self.pages.table.rename(id, new + (address - old));
        }
        if !stays {
            self.registered.remove(old, old_end);
        }
        if registered {
            self.register_again(new, new_end);
        }
    }
}

/// Returns the range of whole pages that `len` bytes from `start` on cover.
fn span(start: usize, len: usize) -> (usize, usize) {
    (start, start.saturating_add(len).next_multiple_of(PAGE))
}
