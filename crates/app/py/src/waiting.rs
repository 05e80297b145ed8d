//! Long work: it runs on a separate thread without the interpreter lock, while the calling thread shows progress and checks for signals.

use crate::errors::{ErrorClass, raised};
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Interval at which the calling thread shows progress and checks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// Progress of some work, and whether the work must stop.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    done: AtomicU64,
    all: AtomicU64,
    stops: AtomicBool,
}

/// Panic payload that unwinds work that must stop, because a simulation has no other way to end between events.
struct Stopped;

impl Gauge {
    /// Records the progress of the work. Unwinds if the work must stop.
    pub(crate) fn show(&self, done: u64, all: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
        self.check();
    }

    /// Records the total amount of work.
    pub(crate) fn begin(&self, all: u64) {
        self.all.store(all, Ordering::Relaxed);
    }

    /// Adds `steps` to the finished work. Unwinds if the work must stop.
    pub(crate) fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Ordering::Relaxed);
        self.check();
    }

    /// Returns the flag that becomes true when the work must stop.
    pub(crate) fn stops(&self) -> &AtomicBool {
        &self.stops
    }

    /// Unwinds if the work must stop. A thread that is already unwinding is left alone, because a second unwinding would abort the process.
    pub(crate) fn check(&self) {
        if self.stops.load(Ordering::Relaxed) && !std::thread::panicking() {
            // `resume_unwind` does not call the panic hook, because stopping is no error.
            resume_unwind(Box::new(Stopped));
        }
    }
}

/// Number of pieces of work that are being stopped. Panics of their threads are expected, so they are not reported.
static STOPPING: AtomicU32 = AtomicU32::new(0);

/// Installs a panic hook that does not report panics while some work is being stopped.
fn quiet_when_stopping() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if STOPPING.load(Ordering::Relaxed) == 0 {
                report(panic);
            }
        }));
    });
}

/// Calls `work` on another thread, and returns its result. Meanwhile it calls `progress` with two numbers, the finished and the total work.
/// If `progress` or the handler of a signal (such as Ctrl-C) raises an exception, the work is stopped.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Gauge) -> T + Send,
) -> PyResult<T> {
    quiet_when_stopping();
    let gauge = &Gauge::default();
    let progress = progress.map(|progress| progress.clone().unbind());
    let look = |gauge: &Gauge| {
        Python::attach(|py| {
            py.check_signals()?;
            let Some(progress) = &progress else { return Ok(()) };
            let shown = (gauge.done.load(Ordering::Relaxed), gauge.all.load(Ordering::Relaxed));
            progress.call1(py, shown).map(drop)
        })
    };
    let (ended, interrupted) = py.detach(|| {
        std::thread::scope(|scope| {
            let (give, take) = channel();
            scope.spawn(move || {
                // The receiver waits for this value.
                drop(give.send(catch_unwind(AssertUnwindSafe(|| work(gauge)))));
            });
            let mut interrupted = None;
            loop {
                match take.recv_timeout(LOOK) {
                    Ok(ended) => break (Some(ended), interrupted),
                    Err(RecvTimeoutError::Disconnected) => break (None, interrupted),
                    Err(RecvTimeoutError::Timeout) if interrupted.is_some() => {}
                    Err(RecvTimeoutError::Timeout) => {
                        interrupted = look(gauge).err();
                        if interrupted.is_some() {
                            STOPPING.fetch_add(1, Ordering::Relaxed);
                            gauge.stops.store(true, Ordering::Relaxed);
                        }
                    }
                }
            }
        })
    });
    match (ended, interrupted) {
        (_, Some(error)) => {
            STOPPING.fetch_sub(1, Ordering::Relaxed);
            Err(error)
        }
        (Some(Ok(found)), None) => {
            look(gauge)?;
            Ok(found)
        }
        (Some(Err(panic)), None) => Err(raised(ErrorClass::Failed, &internal_error(panic.as_ref()))),
        (None, None) => Err(raised(ErrorClass::Failed, "the work ended without a result")),
    }
}

/// Returns the text for an internal error of Unrack. The panic hook has already printed the error and its place to stderr.
fn internal_error(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("internal error: {}: please report it, with the scenario", text.unwrap_or("no text"))
}
