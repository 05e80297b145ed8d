//! Text of the answer of `unrack swap`.

use std::fmt::Write;
use unrack_compare::{PredictedSwap, SwapAnswer, Swapped, Touches};

/// Returns the answer as text for people.
pub(super) fn of(answer: &SwapAnswer) -> String {
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let (local, whole) = (mib(answer.local_bytes), mib(answer.footprint_bytes));
    let mut text = format!("{}: {local:.1} of {whole:.1} MiB local\n\n", answer.command.join(" "));
    let mut line = |name: &str, value: String| _ = writeln!(text, "{name:22} {value}");
    if let Some(native) = &answer.native {
        line("native", format!("{:.2} s", native.median_s));
    }
    if let Some(PredictedSwap { run_s, run_ci95_s: [low, high], .. }) = answer.predicted {
        line("predicted under swap", format!("{run_s:.2} s ({low:.2} to {high:.2})"));
    }
    if let Some(swap) = &answer.swap {
        let all: Vec<_> = swap.seconds.iter().map(|s| format!("{s:.2}")).collect();
        line("measured under swap", format!("{:.2} s ({})", swap.median_s, all.join(", ")));
    }
    match (answer.error, &answer.withheld) {
        (Some(error), _) => line("error", format!("{:+.1} %", error * 100.0)),
        (None, Some(why)) => line("error", format!("withheld: {why}")),
        (None, None) => {}
    }
    let Swapped { pages_in, pages_out, compression, .. } = answer.swapped;
    line(
        "faults",
        format!(
            "the kernel swapped {pages_in} pages in and {pages_out} out; our pager fetched {}",
            answer.fetches
        ),
    );
    let contents =
        compression.map_or(String::new(), |it| format!(", of contents that compress {it:.1} to 1"));
    line("a fault costs", format!("{} on {}{contents}", said(&answer.cost.alone), answer.device));
    if let Some(together) = &answer.cost.together {
        line("", format!("{} for {} threads at the same time", said(together), together.threads));
    }
    if let Some(PredictedSwap { overlap, fault_ns, .. }) = answer.predicted {
        line("", format!("{:.1} us as they overlap here ({overlap:.2} at a time)", fault_ns / 1e3));
    }
    line(
        "pages looked at",
        format!(
            "{:.1} for each evicted page, and {:.1} in the touches that measure the cost of a fault",
            answer.swapped.pages_scanned as f64 / answer.swapped.pages_out.max(1) as f64,
            answer.cost.alone.scanned_per_out
        ),
    );
    line("local at the peak", format!("{:.1} MiB", mib(answer.swapped.peak_local_bytes)));
    if let Some(error) = answer.error_at_equal_faults {
        line("with the same faults", format!("{:+.1} %: had our pager fetched as many pages", error * 100.0));
    }
    for warning in &answer.warnings {
        let _ = writeln!(text, "\nwarning: {warning}");
    }
    text
}

/// Returns the cost of a fault, with its range.
fn said(touches: &Touches) -> String {
    let [least, most] = touches.range_ns.map(|ns| ns / 1e3);
    format!("{:.1} us ({least:.1} to {most:.1})", touches.fault_ns / 1e3)
}
