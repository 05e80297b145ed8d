//! State that fast mode keeps for each thread of the program: a block of memory with a record and a stack.
//!
//! ```text
//! | record | guard page | stack, on which fast mode's signal handlers run |
//! ```
//! Blocks are aligned to their size, so that a handler finds its thread from its own stack pointer.

use super::lock::LockGuard;
use crate::reserved_region;
use crate::stride::Stride;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

/// A thread of the program, as its own handlers see it. Other threads read only `tid`.
#[repr(C)]
pub(super) struct Thread {
    /// Byte that the kernel reads at each system call outside of this library: [`ALLOW`] or [`DISPATCH`].
    pub selector: AtomicU8,
    /// Number of the thread; 0: the block is free.
    tid: AtomicU32,
    /// True when the thread is ending but still runs on this block's stack.
    leaves: AtomicBool,
    /// Index of the thread in the trace; assigned at its first fault.
    pub index: Cell<Option<u32>>,
    /// Time in ns that the pager spent since the thread's previous fetch on faults that a real blade would not have.
    pub overhead_ns: Cell<u64>,
    /// Pages that the thread received last for a first touch.
    pub(super) stride: Cell<Stride>,
    /// True if memory is held for the thread's system calls: the current one, and others that handlers interrupted.
    pub holds: Cell<bool>,
    /// Alternate signal stack that the program believes to have set.
    pub alternate: Cell<Stack>,
    /// Those of `SIGBUS` and `SIGSYS` that the program believes to have blocked.
    pub blocked: Cell<u64>,
    /// True if the thread belongs to another process, which shares memory with its parent for a moment.
    is_guest: Cell<bool>,
    /// Arguments of a system call that the thread makes after the handler has returned.
    pub scratch: Cell<[u64; 3]>,
}

/// The kernel's `stack_t`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stack {
    pub base: usize,
    pub flags: i32,
    pub size: usize,
}

impl Stack {
    /// The value for "no stack".
    pub(super) const NONE: Stack = Stack { base: 0, flags: libc::SS_DISABLE, size: 0 };

    /// Returns whether signals may be handled on this stack.
    pub(super) fn is_armed(&self) -> bool {
        self.flags & libc::SS_DISABLE == 0
    }

    /// Returns whether a thread with this stack pointer is on this stack.
    pub(super) fn contains(&self, pointer: usize) -> bool {
        self.is_armed() && pointer > self.base && pointer - self.base <= self.size
    }

    /// Returns whether a thread with this stack pointer has left the handler whose frame is at `frame`; `self` is the thread's alternate
    /// stack. At its return, a handler has removed the return address from its frame.
    pub(super) fn has_left(&self, frame: usize, pointer: usize) -> bool {
        let is_here = self.contains(pointer);
        if is_here == self.contains(frame) { pointer > frame + size_of::<usize>() } else { !is_here }
    }
}

/// Signals of fast mode, which must not be blocked while code of the program runs, because a fault would then end the process.
pub(super) const OURS: u64 = 1 << (libc::SIGBUS - 1) | 1 << (libc::SIGSYS - 1);

/// Selector that lets system calls pass.
pub(super) const ALLOW: u8 = 0;
/// Selector that dispatches system calls to fast mode's handler.
pub(super) const DISPATCH: u8 = 1;

const STACK_AT: usize = 8192;

static USED: AtomicU32 = AtomicU32::new(0);

impl Thread {
    /// Returns the calling thread. Only for the handlers of fast mode, which run on the stack of their thread's block.
    pub(super) fn current() -> &'static Thread {
        let here = 0u8;
        let block = (&raw const here) as usize & !(reserved_region::BLOCK_BYTES - 1);
        assert!(reserved_region::is_block(block), "a handler of ours runs on its own stack");
        // SAFETY: a block in use begins with a record, which is never unmapped; see `Thread::take`.
        unsafe { &*(block as *const Thread) }
    }

    /// Takes a block for a new thread, while the lock is held; returns `None` if there are too many threads or no memory is left.
    pub(super) fn take<T>(_: &LockGuard<T>) -> Option<&'static Thread> {
        let used = USED.load(Relaxed) as usize;
        let block = match (0..used).map(reserved_region::block).find(|block| Thread::is_free(*block)) {
            Some(block) => block,
            None => Thread::open_next()?,
        };
        // SAFETY: opened for reading and writing, page-aligned, and unused: the thread of any old record has ended.
        unsafe {
            let thread = block as *mut Thread;
            thread.write(Thread {
                selector: AtomicU8::new(ALLOW),
                tid: AtomicU32::new(u32::MAX),
                leaves: AtomicBool::new(false),
                index: Cell::new(None),
                overhead_ns: Cell::new(0),
                stride: Cell::new(Stride::default()),
                holds: Cell::new(false),
                alternate: Cell::new(Stack::NONE),
                blocked: Cell::new(0),
                is_guest: Cell::new(false),
                scratch: Cell::new([0; 3]),
            });
            Some(&*thread)
        }
    }

    /// Returns whether this block is free, or its thread has ended.
    fn is_free(block: usize) -> bool {
        // SAFETY: used blocks have records.
        let thread = unsafe { &*(block as *const Thread) };
        let tid = thread.tid.load(Relaxed);
        tid == 0 || thread.leaves.load(Relaxed) && has_ended(tid)
    }

    fn open_next() -> Option<usize> {
        let number = USED.load(Relaxed) as usize;
        let block = reserved_region::block(number);
        reserved_region::open_block(number, 0, size_of::<Thread>()).ok()?;
        reserved_region::open_block(number, STACK_AT, reserved_region::BLOCK_BYTES - STACK_AT).ok()?;
        USED.store(number as u32 + 1, Relaxed);
        Some(block)
    }

    /// Assigns the block to the thread with this number.
    pub(super) fn settle(&self, tid: u32) {
        self.tid.store(tid, Relaxed);
    }

    /// Marks the thread as ending: its block is free as soon as the thread has ended.
    pub(super) fn leave(&self) {
        self.leaves.store(true, Relaxed);
    }

    /// Makes this thread a new one and the only one, in the child of a fork.
    pub(super) fn be_alone(&self, tid: u32) {
        let own = self as *const Thread as usize;
        for block in
            (0..USED.load(Relaxed) as usize).map(reserved_region::block).filter(|block| *block != own)
        {
            // SAFETY: used blocks have records.
            unsafe { &*(block as *const Thread) }.release();
        }
        self.settle(tid);
        self.index.set(None);
        self.overhead_ns.set(0);
    }

    /// Frees a block whose stack is not in use.
    pub(super) fn release(&self) {
        self.tid.store(0, Relaxed);
    }

    /// Sets whether the thread belongs to another process, which shares memory with its parent for a moment.
    pub(super) fn set_guest(&self, is_guest: bool) {
        self.is_guest.set(is_guest);
    }

    /// Returns whether the thread belongs to another process, which shares memory with its parent for a moment.
    pub(super) fn is_guest(&self) -> bool {
        self.is_guest.get()
    }

    /// Returns the stack of the thread's block.
    pub(super) fn stack(&self) -> Stack {
        let block = self as *const Thread as usize;
        Stack { base: block + STACK_AT, flags: 0, size: reserved_region::BLOCK_BYTES - STACK_AT }
    }
}

fn has_ended(tid: u32) -> bool {
    use rustix::io::Errno;
    let pid = rustix::process::Pid::from_raw(tid as i32);
    // The number may belong to a thread of another process. Then the block stays unused, which does no harm.
    pid.is_none_or(|pid| rustix::process::getpriority_process(Some(pid)) == Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_is_left_when_the_stack_pointer_is_above_its_frame() {
        const MAIN: usize = 0x7fff_0000;
        let alternate = Stack { base: 0x1000, flags: 0, size: 0x1000 };
        for stack in [Stack::NONE, alternate] {
            // Inside, at its return, and after it.
            assert!(!stack.has_left(MAIN, MAIN - 64) && !stack.has_left(MAIN, MAIN + 8));
            assert!(stack.has_left(MAIN, MAIN + 16));
        }
        // A handler on the alternate stack interrupts one on the main stack, and not the other way round.
        assert!(!alternate.has_left(MAIN, 0x1800));
        assert!(alternate.has_left(0x1800, MAIN));
        assert!(!alternate.has_left(0x1800, 0x1700) && alternate.has_left(0x1800, 0x1900));
    }
}
