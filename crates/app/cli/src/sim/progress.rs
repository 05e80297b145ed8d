//! Progress bar of a simulation.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use unrack_sim::observe::Views;
use unrack_sim::{Finished, Progress, Setup, SetupError, Work};

const LOOK: &str = "{prefix} {wide_bar} {percent:>3} %  {human_pos} of {human_len} messages, {eta} left";

/// Runs `work` with a progress bar named `name`, on stderr if that is a terminal.
pub(crate) fn run(name: &str, setup: &Setup, work: &Work) -> Result<Finished, SetupError> {
    with_bar(name, |bar| setup.run(work, |progress| show(bar, progress)))
}

/// Runs `work` on several threads, with a progress bar.
pub(crate) fn split(name: &str, setup: &Setup, work: &Work, threads: u32) -> Result<Finished, SetupError> {
    with_bar(name, |bar| setup.split(work, threads, |progress| show(bar, progress)))
}

/// Runs `work` observed by `watch`, with a progress bar.
pub(crate) fn watched(
    name: &str,
    setup: &Setup,
    work: &Work,
    watch: &mut Views,
) -> Result<Finished, SetupError> {
    with_bar(name, |bar| setup.watched(work, watch, |progress| show(bar, progress)))
}

fn with_bar<T>(name: &str, run: impl FnOnce(&ProgressBar) -> T) -> T {
    let style = ProgressStyle::with_template(LOOK).expect("the template is ours");
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
    bar.set_prefix(name.to_string());
    let done = run(&bar);
    bar.finish_and_clear();
    done
}

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_length(progress.total.unwrap_or(progress.submitted));
    bar.set_position(progress.finished);
}
