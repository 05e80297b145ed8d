//! Worker threads for slow handlers, so that the queue thread can continue to poll for calls.

use super::call::CallOutcome;
use super::client_context::run_handler;
use super::methods::{Handler, Methods};
use crate::ends::IncomingCall;
use crate::queue::entry::EntryStatus;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use unrack_pool::{Channel, Client};

/// A call that a worker is to run. It keeps the call's buffer mapped.
pub(super) struct WorkerCall {
    pub port: usize,
    pub incoming: IncomingCall,
    pub channel: Arc<Channel>,
    pub methods: Arc<Methods>,
}

// SAFETY: the pointer is to shared memory, which the channel keeps mapped and which only this job uses.
unsafe impl Send for WorkerCall {}

/// Outcome of a job.
pub(super) struct HandledOutcome {
    pub port: usize,
    pub slot: u16,
    pub outcome: CallOutcome,
}

/// Worker threads of one queue thread.
pub(super) struct Workers {
    shared: Arc<WorkerState>,
    threads: Vec<JoinHandle<()>>,
}

struct WorkerState {
    work: Mutex<WorkerJob>,
    given: Condvar,
    done: Mutex<Vec<HandledOutcome>>,
    pool: Client,
    wakeup: usize,
}

#[derive(Default)]
struct WorkerJob {
    jobs: VecDeque<WorkerCall>,
    stop: bool,
}

impl Workers {
    /// Starts `count` workers. `wakeup` is the index of the queue thread's wakeup, by which a worker wakes that thread when it has finished
    /// a job.
    pub(super) fn start(count: usize, pool: &Client, wakeup: usize) -> std::io::Result<Workers> {
        let shared = Arc::new(WorkerState {
            work: Mutex::default(),
            given: Condvar::new(),
            done: Mutex::default(),
            pool: pool.clone(),
            wakeup,
        });
        let mut workers = Workers { shared, threads: Vec::new() };
        for _ in 0..count {
            let shared = workers.shared.clone();
            let thread =
                std::thread::Builder::new().name("unrack-worker".into()).spawn(move || run(&shared))?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Queues a job.
    pub(super) fn give(&self, job: WorkerCall) {
        self.shared.work().jobs.push_back(job);
        self.shared.given.notify_one();
    }

    /// Takes the outcomes of the finished jobs, so that the queue thread can answer them.
    pub(super) fn take_done(&self) -> Vec<HandledOutcome> {
        std::mem::take(&mut *self.shared.done())
    }

    /// Returns whether there are finished jobs that the queue thread has not answered yet.
    pub(super) fn have_done(&self) -> bool {
        !self.shared.done().is_empty()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.work().stop = true;
        self.shared.given.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl WorkerState {
    fn work(&self) -> MutexGuard<'_, WorkerJob> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> MutexGuard<'_, Vec<HandledOutcome>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<WorkerCall> {
        let mut work = self.work();
        loop {
            if work.stop {
                return None;
            }
            match work.jobs.pop_front() {
                Some(job) => return Some(job),
                None => work = self.given.wait(work).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

fn run(shared: &WorkerState) {
    while let Some(job) = shared.next() {
        let request = job.incoming.request;
        let Some(Handler::Plain(handler)) = job.methods.get(request.method) else {
            unreachable!("only such calls are given to workers");
        };
        let client = (job.channel.peer(), job.channel.id().0);
        // SAFETY: the job keeps the buffer mapped, and at most one call of a slot runs at a time.
        let outcome = unsafe {
            run_handler(&job.incoming, &job.channel, client, |call| handler(call).map(|()| EntryStatus::DONE))
        };
        shared.done().push(HandledOutcome { port: job.port, slot: request.slot, outcome });
        drop(job);
        shared.pool.wakeup(shared.wakeup).wake();
    }
}
