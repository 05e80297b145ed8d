//! Progress of a question: the current step and the approximate time of the remaining steps. It is shown as a bar on a terminal, or as
//! messages.

use crate::failure::say;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::cell::OnceCell;
use std::fmt::Write;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use unrack_compare::{QuestionCaller, StepProgress, TimeLeft};

/// Returns the caller of a question that shows this progress. The question is never canceled, because signals end the command.
pub(crate) fn asking(progress: &dyn StepProgress) -> QuestionCaller<'_> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    QuestionCaller::here(progress, &NEVER)
}

/// Progress bar on a terminal; no output elsewhere. It is drawn when the first step starts.
#[derive(Default)]
pub(crate) struct StepBar(OnceCell<DrawnBar>);

struct DrawnBar {
    bar: ProgressBar,
    /// Time of the remaining steps, once it is known.
    left: Arc<Mutex<Option<TimeLeft>>>,
}

const LOOK: &str = "{bar:24} {msg} [{elapsed}{left}]";
/// Length of the bar.
const WHOLE: f64 = 1000.0;

impl DrawnBar {
    fn new() -> DrawnBar {
        let left = Arc::new(Mutex::new(None));
        let shown = left.clone();
        let show = move |_: &ProgressState, to: &mut dyn Write| {
            let left: Option<TimeLeft> = *shown.lock().unwrap_or_else(PoisonError::into_inner);
            // A failure to show the line is harmless.
            let _ = to.write_str(&text(left, Instant::now()));
        };
        let bar = ProgressBar::new(WHOLE as u64);
        let style = ProgressStyle::with_template(LOOK).expect("the template is ours");
        bar.set_style(style.with_key("left", show));
        bar.enable_steady_tick(Duration::from_millis(200));
        DrawnBar { bar, left }
    }
}

impl StepProgress for StepBar {
    fn begin(&self, step: &str) {
        self.0.get_or_init(DrawnBar::new).bar.set_message(step.to_string());
    }

    fn time_left(&self, left: &TimeLeft) {
        let drawn = self.0.get_or_init(DrawnBar::new);
        *drawn.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(*left);
        if left.is_whole {
            let elapsed_s = drawn.bar.elapsed().as_secs_f64();
            let whole_s = (elapsed_s + left.seconds).max(f64::MIN_POSITIVE);
            drawn.bar.set_position((WHOLE * elapsed_s / whole_s) as u64);
        }
    }

    fn say(&self, text: &str) {
        say(text);
    }

    fn finish(&self) {
        if let Some(drawn) = self.0.get() {
            drawn.bar.finish_and_clear();
        }
    }
}

fn text(left: Option<TimeLeft>, now: Instant) -> String {
    let left_s = left.and_then(|left| left.seconds_from(now));
    left_s.map_or(String::new(), |left_s| format!(", about {} s left", left_s.max(1.0).round()))
}

/// Prints a message for every step. It is for commands whose program writes to the same terminal, where a bar would be disturbed.
pub(crate) struct SaidSteps;

impl StepProgress for SaidSteps {
    fn begin(&self, step: &str) {
        say(step);
    }

    fn say(&self, text: &str) {
        say(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_time_is_left_than_the_budget_has() {
        let now = Instant::now();
        let left = |is_whole, seconds| {
            let until = now.checked_add(Duration::from_secs(seconds));
            text(Some(TimeLeft { seconds: 260.0, since: now, until, is_whole }), now)
        };
        assert_eq!(left(true, 300), ", about 260 s left");
        assert_eq!(
            (left(true, 90).as_str(), left(true, 0).as_str()),
            (", about 90 s left", ", about 1 s left")
        );
        assert_eq!((left(false, 300), text(None, now)), (String::new(), String::new()));
    }
}
