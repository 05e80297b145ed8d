//! Thread that waits for answers on behalf of tasks, which must not block.
//!
//! The thread only needs the wakers of an executor, so calls can be awaited under any executor. It starts when a task
//! first awaits a call that is not yet answered, and it sleeps on the same wakeup as blocking threads.

use super::shared::{NOBODY, SharedConnection, WaitFailure};
use crate::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// Handle of the thread, which starts when it is first needed.
pub(super) struct Reactor {
    shared: Arc<SharedConnection>,
    state: Arc<State>,
    thread: OnceLock<JoinHandle<()>>,
    starting: Mutex<()>,
}

#[derive(Default)]
struct State {
    stop: AtomicBool,
    /// Number of changes that the thread has to notice.
    changed: AtomicU64,
    /// True while no task waits and the thread sleeps.
    idle: Mutex<bool>,
    wanted: Condvar,
}

impl Reactor {
    /// Makes a reactor whose thread is not started yet.
    pub(super) fn new(shared: &Arc<SharedConnection>) -> Reactor {
        Reactor {
            shared: shared.clone(),
            state: Arc::default(),
            thread: OnceLock::new(),
            starting: Mutex::new(()),
        }
    }

    /// Ensures that the thread runs after a task has registered. `earlier` is true if the task's deadline is before
    /// that of all other tasks.
    pub(super) fn attend(&self, earlier: bool) -> Result<(), Error> {
        if self.thread.get().is_none() {
            self.start()?;
        }
        let mut idle = self.state.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *idle) {
            self.state.wanted.notify_one();
        } else if earlier {
            self.state.changed.fetch_add(1, Ordering::SeqCst);
            self.shared.ring_own();
        }
        Ok(())
    }

    fn start(&self) -> Result<(), Error> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.thread.get().is_none() {
            let (shared, state) = (self.shared.clone(), self.state.clone());
            let thread =
                std::thread::Builder::new().name("unrack-rpc".into()).spawn(move || run(&shared, &state))?;
            self.thread.set(thread).expect("one starts it at a time");
        }
        Ok(())
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        if !self.shared.is_here() {
            // The thread runs in the parent process, so a child cannot join it.
            return std::mem::forget(self.thread.take());
        }
        if let Some(thread) = self.thread.take() {
            self.state.stop.store(true, Ordering::SeqCst);
            *self.state.idle.lock().unwrap_or_else(PoisonError::into_inner) = false;
            self.state.wanted.notify_one();
            self.state.changed.fetch_add(1, Ordering::SeqCst);
            self.shared.ring_own();
            // A waker may have dropped the last client on this very thread, which cannot join itself.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

fn run(shared: &SharedConnection, state: &State) {
    while !state.stop.load(Ordering::SeqCst) {
        let changed = state.changed.load(Ordering::SeqCst);
        let (anybody, alarm) = {
            let calls = shared.calls();
            (calls.anybody_registered(), calls.alarm)
        };
        if !anybody {
            sleep(shared, state);
            continue;
        }
        // Any thread that takes answers wakes the tasks concerned. This thread therefore only has to poll until no task
        // waits, or until it has to stop or to use another deadline.
        let waited = shared.wait_until(NOBODY, alarm, |calls| {
            let other = state.changed.load(Ordering::SeqCst) != changed || state.stop.load(Ordering::SeqCst);
            (other || !calls.anybody_registered()).then_some(())
        });
        if let Err(ended) = waited {
            let wakers = shared.calls().take_wakers();
            wakers.into_iter().for_each(std::task::Waker::wake);
            if matches!(ended, WaitFailure::Gone(_)) {
                // No more answers come. Tasks that register from now on check for themselves whether the server is
                // gone.
                sleep(shared, state);
            }
        }
    }
}

/// Sleeps until a task registers or the thread has to stop.
fn sleep(shared: &SharedConnection, state: &State) {
    let mut idle = state.idle.lock().unwrap_or_else(PoisonError::into_inner);
    *idle = true;
    if shared.calls().anybody_registered() || state.stop.load(Ordering::SeqCst) {
        *idle = false;
    }
    while *idle {
        idle = state.wanted.wait(idle).unwrap_or_else(PoisonError::into_inner);
    }
}
