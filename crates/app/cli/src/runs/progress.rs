//! Progress of a measurement: the current step and about how long the rest will take, as a line with a bar on a
//! terminal, nothing elsewhere.

use super::left::{Kind, Left};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Steps of a measurement, as shown to a person.
pub(crate) struct Steps {
    bar: ProgressBar,
    /// Steps to come, as known when the last one ended.
    known: Arc<Mutex<Known>>,
}

struct Known {
    left: Left,
    at: Instant,
    /// False while some steps to come are not known yet.
    is_whole: bool,
    /// End of the budget: what it has no time for is left out.
    until: Option<Instant>,
}

const LOOK: &str = "{bar:24} {msg} [{elapsed}{left}]";
/// Length of the bar.
const WHOLE: f64 = 1000.0;

impl Steps {
    /// Shows an empty bar, of steps that end at a time at the latest.
    pub(crate) fn until(until: Option<Instant>) -> Steps {
        let known = Known { left: Left::default(), at: Instant::now(), is_whole: false, until };
        let known = Arc::new(Mutex::new(known));
        let shown = known.clone();
        let show = move |_: &ProgressState, to: &mut dyn Write| {
            // A line that cannot be shown does no harm.
            let _ = to.write_str(&lock(&shown).text());
        };
        let bar = ProgressBar::new(WHOLE as u64);
        let style = ProgressStyle::with_template(LOOK).expect("the template is ours");
        bar.set_style(style.with_key("left", show));
        bar.enable_steady_tick(Duration::from_millis(200));
        Steps { bar, known }
    }

    /// Shows the step that starts now.
    pub(crate) fn begin(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Adds a step to come, with its predicted time in seconds.
    pub(crate) fn expect(&self, kind: Kind, predicted_s: f64) {
        lock(&self.known).left.expect(kind, predicted_s);
    }

    /// Notes that all steps to come are known.
    pub(crate) fn all_expected(&self) {
        lock(&self.known).is_whole = true;
    }

    /// Removes an expected step that will not come.
    pub(crate) fn drop(&self, kind: Kind, predicted_s: f64) {
        lock(&self.known).left.drop(kind, predicted_s);
    }

    /// Records a finished step, and moves the bar.
    pub(crate) fn done(&self, kind: Kind, predicted_s: f64, took_s: f64) {
        let mut known = lock(&self.known);
        known.left.done(kind, predicted_s, took_s);
        known.at = Instant::now();
        let (elapsed_s, left_s) = (self.bar.elapsed().as_secs_f64(), known.left.seconds());
        if known.is_whole {
            self.bar.set_position((WHOLE * elapsed_s / (elapsed_s + left_s).max(f64::MIN_POSITIVE)) as u64);
        }
    }

    /// Returns the predicted time of a step, corrected by the actual times of its kind.
    pub(crate) fn corrected(&self, kind: Kind, predicted_s: f64) -> f64 {
        lock(&self.known).left.corrected(kind, predicted_s)
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Known {
    fn text(&self) -> String {
        let left_s = self.left.seconds() - self.at.elapsed().as_secs_f64();
        let most_s = self
            .until
            .map_or(f64::INFINITY, |until| until.saturating_duration_since(Instant::now()).as_secs_f64());
        let left_s = left_s.min(most_s);
        match self.is_whole {
            true => format!(", about {} s left", left_s.max(1.0).round()),
            false => String::new(),
        }
    }
}

fn lock(known: &Mutex<Known>) -> std::sync::MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_time_is_left_than_the_budget_has() {
        let until = |seconds| Instant::now().checked_add(Duration::from_secs(seconds));
        let mut left = Left::default();
        left.expect(Kind::Injected, 260.0);
        let text = |until| Known { left, at: Instant::now(), is_whole: true, until }.text();
        assert_eq!(
            (text(None).as_str(), text(until(300)).as_str()),
            (", about 260 s left", ", about 260 s left")
        );
        assert!([", about 90 s left", ", about 89 s left"].contains(&text(until(90)).as_str()));
        assert_eq!(text(until(0)), ", about 1 s left");
    }
}
