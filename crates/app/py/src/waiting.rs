//! Long work: it runs on a thread of its own without the interpreter lock, while the calling thread shows progress and
//! looks for signals.

use crate::errors::{Class, raised};
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Interval between looks at progress and signals.
const LOOK: Duration = Duration::from_millis(50);

/// Progress of some work, and whether it is to stop.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    done: AtomicU64,
    all: AtomicU64,
    stops: AtomicBool,
}

/// Payload of the unwinding by which work that is to stop ends: simulations have no other way out between events.
struct Stopped;

impl Gauge {
    /// Says how far the work is. Does not return if it is to stop.
    pub(crate) fn show(&self, done: u64, all: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
        self.check();
    }

    /// Says how much work there is.
    pub(crate) fn begin(&self, all: u64) {
        self.all.store(all, Ordering::Relaxed);
    }

    /// Says that the work is further by `steps`. Does not return if it is to stop.
    pub(crate) fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Ordering::Relaxed);
        self.check();
    }

    /// Returns what becomes true when the work is to stop.
    pub(crate) fn stops(&self) -> &AtomicBool {
        &self.stops
    }

    /// Does not return if the work is to stop. A thread that unwinds already does stop: a second unwinding would abort.
    pub(crate) fn check(&self) {
        if self.stops.load(Ordering::Relaxed) && !std::thread::panicking() {
            // Without the panic hook: nothing went wrong.
            resume_unwind(Box::new(Stopped));
        }
    }
}

/// Number of works that are being stopped: other threads of theirs panic, and that is no news.
static STOPPING: AtomicU32 = AtomicU32::new(0);

/// Keeps panics of works that are being stopped from being reported.
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

/// Calls `work` on another thread and returns what it returned. Until then, calls `progress` with the work done and all
/// work, both as numbers, and ends the work if that raises, or if a signal's handler does, as Ctrl-C's.
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
                // The receiver waits for this.
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
        (Some(Err(panic)), None) => Err(raised(Class::Failed, &internal_error(panic.as_ref()))),
        (None, None) => Err(raised(Class::Failed, "the work ended without a result")),
    }
}

/// Returns the text of an error of Unrack itself, which it has reported on stderr with its place.
fn internal_error(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("internal error: {}: please report it, with the scenario", text.unwrap_or("no text"))
}
