//! How far a simulation has come, for a person who watches.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use unrack_sim::{Finished, Setup, SetupError, Work};

const LOOK: &str = "{prefix} {wide_bar} {percent:>3} %  {human_pos} of {human_len} messages, {eta} left";

/// Runs `work` with a bar on stderr named `name`, if that is a terminal.
pub fn run(name: &str, setup: &Setup, work: &Work) -> Result<Finished, SetupError> {
    let style = ProgressStyle::with_template(LOOK).expect("the template is ours");
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
    bar.set_prefix(name.to_string());
    let done = setup.run(work, |progress| {
        bar.set_length(progress.total.unwrap_or(progress.submitted));
        bar.set_position(progress.finished);
    });
    bar.finish_and_clear();
    done
}
