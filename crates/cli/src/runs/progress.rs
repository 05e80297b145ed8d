//! What is being done, and about how long it will still take: a line with a bar on a terminal, nothing elsewhere.

use super::left::{Kind, Left};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The steps of a measurement, as a person sees them.
pub struct Steps {
    bar: ProgressBar,
    /// Steps to come, as they were known when the last one ended.
    known: Arc<Mutex<Known>>,
}

struct Known {
    left: Left,
    at: Instant,
    /// False as long as steps are missing whose number nobody knows.
    is_whole: bool,
}

const LOOK: &str = "{bar:24} {msg} [{elapsed}{left}]";
/// The bar's length.
const WHOLE: f64 = 1000.0;

impl Steps {
    pub fn new() -> Steps {
        let known = Known { left: Left::default(), at: Instant::now(), is_whole: false };
        let known = Arc::new(Mutex::new(known));
        let shown = known.clone();
        let show = move |_: &ProgressState, to: &mut dyn Write| {
            // A line that cannot be shown is nobody's loss.
            let _ = to.write_str(&lock(&shown).text());
        };
        let bar = ProgressBar::new(WHOLE as u64);
        let style = ProgressStyle::with_template(LOOK).expect("the template is ours");
        bar.set_style(style.with_key("left", show));
        bar.enable_steady_tick(Duration::from_millis(200));
        Steps { bar, known }
    }

    /// Says what comes now.
    pub fn begin(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// A step will come that is predicted to take so many seconds.
    pub fn expect(&self, kind: Kind, predicted_s: f64) {
        lock(&self.known).left.expect(kind, predicted_s);
    }

    /// All steps to come are expected now.
    pub fn all_expected(&self) {
        lock(&self.known).is_whole = true;
    }

    /// A step that was expected will not come.
    pub fn drop(&self, kind: Kind, predicted_s: f64) {
        lock(&self.known).left.drop(kind, predicted_s);
    }

    pub fn done(&self, kind: Kind, predicted_s: f64, took_s: f64) {
        let mut known = lock(&self.known);
        known.left.done(kind, predicted_s, took_s);
        known.at = Instant::now();
        let (elapsed_s, left_s) = (self.bar.elapsed().as_secs_f64(), known.left.seconds());
        if known.is_whole {
            self.bar.set_position((WHOLE * elapsed_s / (elapsed_s + left_s).max(f64::MIN_POSITIVE)) as u64);
        }
    }

    /// What a step will take, by what others of its kind took.
    pub fn corrected(&self, kind: Kind, predicted_s: f64) -> f64 {
        lock(&self.known).left.corrected(kind, predicted_s)
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Known {
    fn text(&self) -> String {
        let left_s = self.left.seconds() - self.at.elapsed().as_secs_f64();
        match self.is_whole {
            true => format!(", about {} s left", left_s.max(1.0).round()),
            false => String::new(),
        }
    }
}

fn lock(known: &Mutex<Known>) -> std::sync::MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
