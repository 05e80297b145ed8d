//! Operations with signals that arrive on any stack while memory is used, and with handlers that repair faults.

use super::threads::recurse;
use crate::model;
use crate::story::{fail, note};
use crate::sys;
use crate::worker::Worker;
use std::cell::Cell;
use std::ops::Range;
use unrack_basis::{PAGE, mix_13};

/// State of this thread that the signal handlers use. It consists of plain cells, which need no initialization when a signal arrives.
struct Board {
    /// Number of handled signals.
    count: Cell<usize>,
    /// Address of the pages that the handler checks and writes; 0 if there are none.
    pages: Cell<usize>,
    /// Key of the bytes that the handler wrote last.
    key: Cell<u64>,
    /// True if a handler found wrong bytes.
    wrong: Cell<bool>,
    /// Address range (start and end) in which the handler repairs faults.
    guarded: Cell<(usize, usize)>,
    /// Number of repaired faults.
    repaired: Cell<usize>,
}

thread_local! {
    static BOARD: Board = const {
        Board {
            count: Cell::new(0),
            pages: Cell::new(0),
            key: Cell::new(0),
            wrong: Cell::new(false),
            guarded: Cell::new((0, 0)),
            repaired: Cell::new(0),
        }
    };
}

/// Number of pages of a board that the handler checks and writes.
const BOARD_PAGES: usize = 4;

const NORMAL: i32 = libc::SIGUSR1;
const ALTERNATE: i32 = libc::SIGUSR2;

/// Registers the handlers for the whole process.
pub(crate) fn install_handlers() {
    install(NORMAL, on_signal as *const () as usize, libc::SA_RESTART);
    install(ALTERNATE, on_deep_signal as *const () as usize, libc::SA_RESTART | libc::SA_ONSTACK);
    install(libc::SIGSEGV, on_fault as *const () as usize, 0);
}

fn install(signal: i32, handler: usize, flags: i32) {
    // SAFETY: `sigaction` is plain data; the handler has the type that SA_SIGINFO requires.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_SIGINFO;
        sys::must(libc::sigaction(signal, &action, std::ptr::null_mut()), "sigaction");
    }
}

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    BOARD.with(|b| {
        b.count.set(b.count.get() + 1);
        let base = b.pages.get();
        if base == 0 {
            return;
        }
        for page in 0..BOARD_PAGES {
            let page = base + page * PAGE;
            if model::check(sys::bytes(page, PAGE), b.key.get()).is_err() {
                b.wrong.set(true);
            }
            model::fill(sys::bytes_mut(page, PAGE), mix_13(b.key.get()) | 1);
        }
        b.key.set(mix_13(b.key.get()) | 1);
    });
}

extern "C" fn on_deep_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    recurse(BOARD.with(|b| b.key.get()), 16);
    on_signal(signal, info, context);
}

/// Makes a guarded page accessible after a fault. Any other fault ends the process, as it would without a handler.
extern "C" fn on_fault(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid description of the fault.
    let address = unsafe { (*info).si_addr() } as usize;
    BOARD.with(|b| {
        let (start, end) = b.guarded.get();
        if (start..end).contains(&address) {
            let page = address & !(PAGE - 1);
            // SAFETY: the page is in the range that `guard` protected on this thread.
            unsafe { libc::mprotect(page as *mut _, PAGE, sys::READ_WRITE) };
            b.repaired.set(b.repaired.get() + 1);
        } else {
            // SAFETY: this only resets the action; the fault occurs again and ends the process.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        }
    });
}

/// Prepares this thread's board, runs `f`, and checks that the handlers saw and left correct bytes. Returns the number of handled signals.
fn with_board(w: &mut Worker, f: impl FnOnce(&mut Worker)) -> usize {
    let base = sys::map(BOARD_PAGES, sys::READ_WRITE, sys::ANONYMOUS, -1);
    BOARD.with(|b| {
        b.count.set(0);
        b.wrong.set(false);
        b.key.set(model::ZEROS);
        b.pages.set(base);
    });
    f(w);
    let (count, wrong, key) = BOARD.with(|b| {
        b.pages.set(0);
        (b.count.get(), b.wrong.get(), b.key.get())
    });
    let last = (0..BOARD_PAGES).find(|p| model::check(sys::bytes(base + p * PAGE, PAGE), key).is_err());
    if wrong || last.is_some() {
        fail(format_args!(
            "a handler saw or left wrong bytes (seen {wrong}, left {last:?}, {count} signals)"
        ));
    }
    sys::unmap(base, BOARD_PAGES);
    count
}

/// Sends signals to this thread between accesses to memory.
pub(super) fn raise(w: &mut Worker) {
    let times = w.rng.between(1, 10);
    let count = with_board(w, |w| send(w, NORMAL, times));
    if count != times {
        fail(format_args!("{count} of {times} signals were handled"));
    }
}

/// Accesses memory and sends the signal to this thread, `times` times.
fn send(w: &mut Worker, signal: i32, times: usize) {
    for _ in 0..times {
        super::access::visit(w);
        // SAFETY: the signal has a handler, and is sent to this thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
    }
}

/// Runs handlers on an alternate stack that consists of newly mapped memory.
pub(super) fn alternate(w: &mut Worker) {
    const PAGES: usize = 32;
    let stack = sys::map(PAGES, sys::READ_WRITE, sys::ANONYMOUS, -1);
    let mut before = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    let ours = libc::stack_t { ss_sp: stack as *mut _, ss_flags: 0, ss_size: PAGES * PAGE };
    // SAFETY: the stack stays mapped until the previous one is restored.
    sys::must(unsafe { libc::sigaltstack(&ours, &mut before) }, "sigaltstack");
    let times = w.rng.between(1, 10);
    let count = with_board(w, |w| send(w, ALTERNATE, times));
    // SAFETY: this restores the previous stack.
    sys::must(unsafe { libc::sigaltstack(&before, std::ptr::null_mut()) }, "sigaltstack");
    sys::unmap(stack, PAGES);
    if count != times {
        fail(format_args!("{count} of {times} signals were handled on the alternate stack"));
    }
}

/// Starts a timer that interrupts this thread while it accesses memory and waits in system calls.
pub(super) fn timer(w: &mut Worker) {
    let count = with_board(w, |w| {
        let timer = start_timer(300_000);
        super::access::write(w);
        super::syscalls::pipe(w);
        super::access::visit(w);
        // SAFETY: the timer was created above.
        unsafe { libc::timer_delete(timer) };
    });
    // The number of signals depends on the machine, so it must not appear in the output of a successful run.
    note(format_args!("fired {count} times"));
}

/// Starts a timer that signals this thread at intervals of `every_ns`.
fn start_timer(every_ns: i64) -> libc::timer_t {
    let mut timer = std::ptr::null_mut();
    let every = libc::timespec { tv_sec: 0, tv_nsec: every_ns };
    let setting = libc::itimerspec { it_interval: every, it_value: every };
    // SAFETY: `sigevent` is plain data; all arguments are alive for the calls.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = NORMAL;
        event.sigev_notify_thread_id = libc::gettid();
        sys::must(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), "timer_create");
        sys::must(libc::timer_settime(timer, 0, &setting, std::ptr::null_mut()), "timer_settime");
    }
    timer
}

/// Protects pages, and lets the handler make each accessible when it is touched. Each page must fault exactly once.
pub(super) fn guard(w: &mut Worker) {
    let i = w.any_region(1);
    let range = w.any_range(i, 64);
    let write = w.rng.one_in(2);
    w.regions[i].protect(sys::READ_WRITE);
    let start = w.regions[i].address(range.start);
    sys::protect(start, range.len(), if write { libc::PROT_READ } else { libc::PROT_NONE });
    BOARD.with(|b| {
        b.guarded.set((start, start + range.len() * PAGE));
        b.repaired.set(0);
    });
    touch_all(w, i, range.clone(), write);
    let repaired = BOARD.with(|b| {
        b.guarded.set((0, 0));
        b.repaired.get()
    });
    if repaired != range.len() {
        fail(format_args!("{repaired} faults were repaired for {} pages", range.len()));
    }
    w.regions[i].verify(range);
}

fn touch_all(w: &mut Worker, i: usize, range: Range<usize>, write: bool) {
    if write { w.write(i, range) } else { w.regions[i].verify(range) }
}
