//! Functions that QEMU calls for events of the program's threads.
//!
//! A callback runs in the thread that caused the event. The state of each thread is a [`Thread`], which other threads
//! do not access while the thread runs. The state that the threads share is protected by one lock. A thread takes this
//! lock once for each full buffer of events.

use crate::code::Code;
use crate::exec::{self, LeftToKernel, Request};
use crate::guest::Memory;
use crate::mappings::call;
use crate::process::ProcessState;
use crate::qemu::{self, Qemu};
use crate::thread::Thread;
use std::cell::{Cell, RefCell};
use std::ffi::{c_uint, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use unrack_lines::summary::RecordEnding;

/// Maximum number of threads in one process. Linux limits the mappings of a process (`vm.max_map_count`), and this
/// limit allows only half as many threads.
const MOST: usize = 1 << 16;

/// Threads, indexed by QEMU's vCPU index.
static THREADS: [AtomicPtr<Thread>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];

/// Plugin after it has started.
struct Plugin {
    qemu: Qemu,
    shared: Mutex<ProcessState>,
    /// Number of turns that threads have requested. A thread requests a turn to process its buffer of events, and
    /// threads process their buffers in the order of turns. With the lock alone, one thread could take the lock many
    /// times while the other threads wake up.
    turns: AtomicU64,
    turn_over: Condvar,
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

thread_local! {
    /// QEMU's index of this thread, as of the thread's last system call.
    static INDEX: Cell<usize> = const { Cell::new(0) };
    /// Lock on the shared state. The thread that forks takes it before the fork and releases it afterwards.
    static FORKING: RefCell<Option<MutexGuard<'static, ProcessState>>> = const { RefCell::new(None) };
}

/// Starts to record by registering the callbacks.
pub(crate) fn begin(id: qemu::PluginId, qemu: Qemu, shared: ProcessState) {
    let plugin = PLUGIN.get_or_init(|| {
        let (turns, turn_over) = (AtomicU64::new(0), Condvar::new());
        Plugin { qemu, shared: Mutex::new(shared), turns, turn_over }
    });
    // SAFETY: the handlers have the type that `pthread_atfork` requires, and the library is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child)) };
    plugin.qemu.register(
        id,
        &qemu::Callbacks {
            thread_started,
            thread_ended,
            translated,
            system_call,
            system_call_returned,
            ended,
        },
    );
}

fn plugin() -> Option<&'static Plugin> {
    PLUGIN.get()
}

impl Plugin {
    fn lock(&self) -> MutexGuard<'_, ProcessState> {
        // A poisoned lock can be used, because a panic ends the process: a callback cannot unwind into QEMU.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of a thread, and processes its events.
    fn drain(&self, thread: &mut Thread) {
        let turn = self.turns.fetch_add(1, Relaxed);
        let mut shared = self.lock();
        while shared.turn != turn {
            shared = self.turn_over.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
        thread.process(&mut shared, &self.qemu);
        shared.turn += 1;
        drop(shared);
        self.turn_over.notify_all();
    }
}

/// Returns the state of the thread with this index.
///
/// # Safety
/// The caller must hold no other reference to the state. Either the caller runs in this thread, in a callback that QEMU
/// called with this index, or the thread cannot run.
#[inline(always)]
unsafe fn thread(index: usize) -> Option<&'static mut Thread> {
    let thread = THREADS.get(index)?.load(Relaxed);
    // SAFETY: the pointer is null or comes from `Box::into_raw`, and is not freed while its thread runs.
    unsafe { thread.as_mut() }
}

extern "C" fn thread_started(_: qemu::PluginId, index: c_uint) {
    let Some(plugin) = plugin() else { return };
    let mut shared = plugin.lock();
    let Some(slot) = THREADS.get(index as usize) else {
        return shared.fail(format!("only {MOST} threads are recorded at a time"));
    };
    let number = shared.add_thread();
    let thread = Box::new(Thread::new(number, &shared));
    free(slot.swap(Box::into_raw(thread), Relaxed));
}

extern "C" fn thread_ended(_: qemu::PluginId, index: c_uint) {
    let Some(plugin) = plugin() else { return };
    // SAFETY: this callback runs in the thread itself.
    if let Some(thread) = unsafe { thread(index as usize) } {
        thread.finish(&mut plugin.lock(), &plugin.qemu, true);
    }
    if let Some(slot) = THREADS.get(index as usize) {
        free(slot.swap(std::ptr::null_mut(), Relaxed));
    }
}

/// Frees the state of a thread that has ended or no longer exists.
fn free(thread: *mut Thread) {
    if !thread.is_null() {
        // SAFETY: only `thread_started` stores pointers, and they come from `Box::into_raw`. The caller has swapped
        // this one out of the table and therefore holds the only copy.
        drop(unsafe { Box::from_raw(thread) });
    }
}

extern "C" fn translated(_: qemu::PluginId, tb: *mut qemu::Tb) {
    let Some(plugin) = plugin() else { return };
    // SAFETY: `tb` is the block that QEMU is translating while it runs this callback.
    let translation = unsafe { plugin.qemu.translation(tb) };
    let mut shared = plugin.lock();
    if !shared.is_checked {
        check_addresses(&mut shared, &translation);
    }
    let Some(code) = shared.codes.translated(&translation) else { return };
    translation.at_execution(executed, std::ptr::from_ref(code).cast_mut().cast());
    for (index, instruction) in translation.instructions().enumerate().take(usize::from(code.length())) {
        instruction.at_access(accessed, std::ptr::without_provenance_mut(index));
    }
}

/// Checks that each guest address is equal to the address of the same byte in this process, because the recorder reads
/// arguments of the guest's system calls at these addresses.
fn check_addresses(shared: &mut ProcessState, translation: &qemu::TranslatedBlock<'_>) {
    let mut instructions = translation.instructions();
    let is_identical = instructions.next().is_some_and(|first| {
        Memory::open().is_some_and(|memory| memory.is_identical(first.address(), first.bytes()))
    });
    shared.is_checked = true;
    if !is_identical {
        shared.launcher = None;
        shared.fail("QEMU has moved the program's addresses: its children are not recorded".into());
    }
}

extern "C" fn executed(index: c_uint, code: *mut c_void) {
    // SAFETY: QEMU runs this callback in the thread with this index.
    let Some(thread) = (unsafe { thread(index as usize) }) else { return };
    // SAFETY: `translated` registered this callback with a reference to code, which is never freed.
    let code: &'static Code = unsafe { &*code.cast::<Code>() };
    if thread.events.block(code) {
        drain(thread);
    }
}

extern "C" fn accessed(index: c_uint, info: qemu::AccessInfo, address: u64, instruction: *mut c_void) {
    // SAFETY: QEMU runs this callback in the thread with this index.
    let Some(thread) = (unsafe { thread(index as usize) }) else { return };
    if thread.events.access(instruction.addr() as u32, address, info) {
        drain(thread);
    }
}

#[cold]
#[inline(never)]
fn drain(thread: &mut Thread) {
    if let Some(plugin) = plugin() {
        plugin.drain(thread);
    }
}

extern "C" fn system_call(
    _: qemu::PluginId,
    index: c_uint,
    call: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
    _: u64,
    _: u64,
) {
    let Some(plugin) = plugin() else { return };
    INDEX.set(index as usize);
    // SAFETY: QEMU runs this callback in the thread with this index.
    let Some(thread) = (unsafe { thread(index as usize) }) else { return };
    plugin.drain(thread);
    plugin.lock().count_system_call();
    match call {
        call::MMAP | call::MUNMAP | call::BRK | call::MREMAP | call::MADVISE => {
            thread.pending_call = Some((call, [a1, a2, a3, a4, a5, a6]));
        }
        exec::EXECVE | exec::EXECVEAT if execute(plugin, thread, call, [a1, a2, a3, a4, a5]) => {
            thread.pending_call = Some((call, [0; 6]));
        }
        _ if SENDS_SIGNAL.contains(&call) => plugin.lock().write(RecordEnding::Killed),
        _ => {}
    }
}

/// System calls that send a signal: `kill`, `rt_sigqueueinfo`, `tkill`, `tgkill` and `rt_tgsigqueueinfo`, by their
/// numbers on x86-64. The signal may end this process before QEMU calls another callback.
const SENDS_SIGNAL: [i64; 5] = [62, 129, 200, 234, 297];

/// Handles an `execve` of the guest: replaces this process by a QEMU that runs the requested program. If that
/// fails, returns whether the kernel will run the requested program instead, which is then not recorded.
fn execute(plugin: &Plugin, thread: &mut Thread, call: i64, arguments: exec::SyscallArguments) -> bool {
    let mut shared = plugin.lock();
    let request = match shared.launcher.is_some() {
        true => Request::read(call, arguments, Path::new(&shared.program)),
        false => None,
    };
    let Some(request) = request else { return false };
    let path = request.path().to_string_lossy().into_owned();
    thread.finish(&mut shared, &plugin.qemu, false);
    match request.resolve() {
        Ok((program, environment)) => {
            shared.write(RecordEnding::Exec);
            if let Some(launcher) = &shared.launcher {
                launcher.execute(program, environment);
            }
            false
        }
        Err(LeftToKernel::Refused) => false,
        Err(left) => {
            shared.leave_program(path, left);
            true
        }
    }
}

extern "C" fn system_call_returned(_: qemu::PluginId, index: c_uint, call: i64, result: i64) {
    // SAFETY: QEMU runs this callback in the thread with this index.
    let Some(thread) = (unsafe { thread(index as usize) }) else { return };
    let Some((pending, arguments)) = thread.pending_call.take() else { return };
    let Some(plugin) = plugin().filter(|_| pending == call) else { return };
    match call {
        exec::EXECVE | exec::EXECVEAT => plugin.lock().keep_program(),
        _ => plugin.lock().changed_mappings(call, &arguments, result),
    }
}

extern "C" fn ended(_: qemu::PluginId, _: *mut c_void) {
    let Some(plugin) = plugin() else { return };
    let mut shared = plugin.lock();
    for index in 0..MOST {
        // SAFETY: QEMU has stopped all threads and runs no more of their callbacks (`qemu_plugin_user_exit`).
        if let Some(thread) = unsafe { thread(index) } {
            thread.finish(&mut shared, &plugin.qemu, true);
        }
    }
    shared.write(RecordEnding::Exit);
}

/// Takes the lock on the shared state, so that no other thread holds it when the child process is created.
extern "C" fn before_fork() {
    FORKING.set(plugin().map(Plugin::lock));
}

extern "C" fn after_fork_in_parent() {
    FORKING.set(None);
}

/// Starts the record of a child process after a fork. Only the forking thread exists in the child.
extern "C" fn after_fork_in_child() {
    let Some(mut shared) = FORKING.take() else { return };
    let own = INDEX.get();
    for (index, slot) in THREADS.iter().enumerate() {
        if index != own {
            free(slot.swap(std::ptr::null_mut(), Relaxed));
        }
    }
    // Turns that other threads have requested are skipped, because these threads do not exist in the child.
    shared.turn = plugin().map_or(0, |plugin| plugin.turns.load(Relaxed));
    shared.begin_child();
    // SAFETY: this is the only thread of the process, and it runs no other callback.
    if let Some(thread) = unsafe { thread(own) } {
        thread.begin_child(&shared);
    }
}
