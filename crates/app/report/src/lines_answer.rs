//! Results by loads and stores as text, for the terminal and the page.

use unrack_record::{
    LineCounts, LinesFabric, LinesResult, LinesSummary, NamedMisses, Stated, ThreadSlowdown,
};

use crate::words::{
    bytes, count, listed, nanoseconds, number, percent, program, ratio, seconds, share, shortened,
};

/// Number of rows of a table of names. The other names are added up in one more row.
pub(crate) const NAMES: usize = 10;

/// Maximum length of a name, in characters, because names of generated functions have hundreds of characters.
const NAME: usize = 60;

/// Returns the question that a result answers.
pub(crate) fn question(command: &[String]) -> String {
    format!("What would remote memory, accessed by lines, do to {}?", program(command))
}

/// Returns the answer in one or two sentences.
pub(crate) fn answer(summary: &LinesSummary) -> String {
    let lines = &summary.lines;
    let start = format!(
        "With {} of its {} in local memory ({}), {}",
        share(&lines.local),
        bytes(lines.footprint_bytes),
        lines.placement,
        program(&summary.command)
    );
    let is_network = |fabric: &&LinesFabric| fabric.fabric != "ideal" || lines.fabrics.len() == 1;
    let on = |fabric: &LinesFabric| {
        let value = fabric.slowdown_closed_loop.known()?.value?;
        Some(format!("{} times as slow on {}", ratio(value), fabric.fabric))
    };
    let by_fabric: Vec<String> = lines.fabrics.iter().filter(is_network).filter_map(on).collect();
    let at = |point: &unrack_record::CurvePoint| {
        Some(format!(
            "{} times as slow at {}",
            ratio(point.slowdown.known()?.value?),
            nanoseconds(point.latency_ns)
        ))
    };
    let middle = lines.curve.get(lines.curve.len() / 2);
    let by_latency: Vec<String> = lines.curve.first().into_iter().chain(middle).filter_map(at).collect();
    let said = if by_fabric.is_empty() { by_latency } else { by_fabric };
    match said.is_empty() {
        true => format!("{start} would be slower by an amount that is withheld: see the warnings."),
        false => format!("{start} would be {}.", listed(&said)),
    }
}

/// Describes the native runs, and the model's prediction of them.
pub(crate) fn native(lines: &LinesResult) -> String {
    let native = lines.native.as_ref().map_or("not run".into(), |native| {
        format!(
            "{} (median of {}; {} of processor time)",
            seconds(native.wall.median_s),
            native.wall.seconds.len(),
            seconds(native.processor.median_s)
        )
    });
    let predicted = match lines.predicted_near_s.known().and_then(|near| near.value) {
        Some(near_s) => {
            let processor_s = lines.predicted_processor_s.known().and_then(|time| time.value);
            format!(
                "{}, {} of it in the kernel ({} of processor time)",
                seconds(near_s),
                seconds(lines.kernel_s.unwrap_or(0.0)),
                seconds(processor_s.unwrap_or(0.0))
            )
        }
        None => "withheld".into(),
    };
    format!("{native}; by the model, with all memory local: {predicted}")
}

/// Describes the counts of the run, and the part of the run that they cover.
pub(crate) fn counts(lines: &LinesResult) -> String {
    let counts = &lines.counts;
    let part = lines.seen.map_or(String::new(), |seen| {
        format!("of the first {} of the program: ", percent((seen * 1000.0).round() / 1000.0))
    });
    format!(
        "{part}{} instructions, {} loads, {} stores, {} of {} branches mispredicted; {} processes, {} threads; {} windows of {} \
         instructions in all",
        count(counts.instructions),
        count(counts.loads),
        count(counts.stores),
        count(counts.mispredicted),
        count(counts.branches),
        count(counts.processes.into()),
        count(counts.threads.into()),
        count(counts.windows),
        count(counts.window_instructions)
    )
}

/// Describes the cache lines read from memory and written back to it. Misses are the loads and stores that memory served.
pub(crate) fn memory(counts: &LineCounts) -> String {
    let misses =
        counts.served.iter().find(|served| served.level == "memory").map_or(0, |served| served.accesses);
    format!(
        "{} lines read: {} by misses (loads and stores that memory served), {} by prefetchers and for code; {} written back",
        count(counts.memory_reads),
        count(misses),
        count(counts.memory_reads.saturating_sub(misses)),
        count(counts.write_backs)
    )
}

/// Number of rows of the table of threads. The other threads are only in the JSON.
const THREADS: usize = 10;

/// Returns the rows of the table of threads, if there are several threads. A row has name, instructions, misses, recorded windows, time
/// with all memory local, and the slowdown at the middle and at the greatest latency.
pub(crate) fn threads(lines: &LinesResult) -> Vec<[String; 7]> {
    let row = |thread: &ThreadSlowdown| {
        let at = |point: usize| {
            thread.curve.get(point).map_or("-".into(), |point| stated(&point.slowdown, ratio)[0].clone())
        };
        let name = thread.program.rsplit('/').next().unwrap_or_default();
        let middle = thread.curve.len() / 2;
        [
            format!("{} {} / {}", shortened(name, NAME / 2), thread.pid, thread.thread),
            count(thread.instructions),
            count(thread.misses),
            count(thread.windows),
            stated(&thread.near_s, seconds)[0].clone(),
            at(middle),
            at(thread.curve.len().saturating_sub(1)),
        ]
    };
    match lines.threads.len() {
        0 | 1 => Vec::new(),
        _ => lines.threads.iter().take(THREADS).map(row).collect(),
    }
}

/// Returns the latencies at which the table of threads shows slowdowns.
pub(crate) fn thread_latencies(lines: &LinesResult) -> [String; 2] {
    let at = |point: usize| lines.curve.get(point).map_or("-".into(), |point| nanoseconds(point.latency_ns));
    [at(lines.curve.len() / 2), at(lines.curve.len().saturating_sub(1))]
}

/// Returns, for each level of the memory hierarchy, its name, its accesses, and its accesses per thousand instructions.
pub(crate) fn served(counts: &LineCounts) -> Vec<[String; 3]> {
    let thousands = counts.instructions as f64 / 1e3;
    let row = |served: &unrack_record::ServedCount| {
        [served.level.clone(), count(served.accesses), number(served.accesses as f64 / thousands)]
    };
    counts.served.iter().map(row).collect()
}

/// Describes which resources limit the critical thread with all memory local.
pub(crate) fn bound(lines: &LinesResult) -> String {
    let (Some(stalls), Some(critical)) = (&lines.stalls, &lines.critical) else { return "withheld".into() };
    let part = |share: f64| percent((share * 1000.0).round() / 1000.0);
    format!(
        "{} memory, {} caches, {} stores, {} mispredicted branches, {} core; {} misses to memory under way at once; {} \
         cycles an instruction at {} GHz",
        part(stalls.memory),
        part(stalls.caches),
        part(stalls.stores),
        part(stalls.mispredicted),
        part(stalls.core),
        number(stalls.overlap),
        stated(&critical.cycles_per_instruction, number)[0],
        number(lines.machine_times.frequency_ghz)
    )
}

/// Returns a value and its interval as texts. For a withheld value, the texts are "withheld" and a dash.
pub(crate) fn stated(value: &Stated, text: impl Fn(f64) -> String) -> [String; 2] {
    match value.known() {
        Some(interval) => {
            let high = interval.high.map_or("unknown".into(), &text);
            [interval.value.map_or("-".into(), &text), format!("{} to {high}", text(interval.low))]
        }
        None => ["withheld".into(), "-".into()],
    }
}

/// Keys of the warnings that make all slowdowns rough, because other work disturbed the native runs or the calibration of this machine.
const ROUGH: [&str; 2] = ["native-disturbed", "calibration-disturbed"];

/// Returns a slowdown and its interval as texts, for example "1.024" and "1.020 to 1.028". A rough slowdown is "~1.024".
fn slowdown(lines: &LinesResult, value: &Stated) -> [String; 2] {
    let is_rough = lines.warnings.iter().any(|warning| ROUGH.contains(&warning.key.as_str()));
    let [text, interval] = stated(value, ratio);
    [if is_rough && value.known().is_some() { format!("~{text}") } else { text }, interval]
}

/// Returns the requested placement as text.
pub(crate) fn placement(lines: &LinesResult) -> String {
    match lines.placement.as_str() {
        "all" | "all-far" | "all-remote" => "all remote".into(),
        placement => match placement.strip_prefix("remote:").or_else(|| placement.strip_prefix("far:")) {
            Some(memory) => format!("{memory} remote"),
            None => format!("{} local, {placement}", share(&lines.local)),
        },
    }
}

/// Returns the rows of the table of slowdowns by latency. A row has the latency, the slowdown and its interval.
pub(crate) fn curve(lines: &LinesResult) -> Vec<[String; 3]> {
    let row = |point: &unrack_record::CurvePoint| {
        let [value, interval] = slowdown(lines, &point.slowdown);
        [nanoseconds(point.latency_ns), value, interval]
    };
    lines.curve.iter().map(row).collect()
}

/// Returns the latencies of the table of placements.
pub(crate) fn latencies(lines: &LinesResult) -> Vec<String> {
    lines.curve.iter().map(|point| nanoseconds(point.latency_ns)).collect()
}

/// Returns the rows of the table of placements, the requested placement first. A row has the placement, and the slowdown at each latency.
pub(crate) fn placements(lines: &LinesResult) -> Vec<Vec<String>> {
    let row = |name: String, curve: &[unrack_record::CurvePoint]| {
        let slowdowns = curve.iter().map(|point| slowdown(lines, &point.slowdown)[0].clone());
        [name].into_iter().chain(slowdowns).collect()
    };
    let others = lines.placements.iter().map(|other| row(other.placement.clone(), &other.curve));
    [row(placement(lines), &lines.curve)].into_iter().chain(others).collect()
}

/// Returns the rows of the table of fabrics.
pub(crate) fn fabrics(lines: &LinesResult) -> Vec<Vec<String>> {
    let known = |value: Option<f64>| value.map_or("-".into(), number);
    let row = |fabric: &LinesFabric| {
        let unloaded = known(fabric.unloaded_ns);
        let loaded = [fabric.read_ns.map(|ns| ns.mean), fabric.read_ns.map(|ns| ns.p99)].map(known);
        let slowdowns = [&fabric.slowdown, &fabric.slowdown_closed_loop].map(|one| slowdown(lines, one));
        [&[fabric.fabric.clone(), unloaded][..], &loaded, &slowdowns.concat()].concat()
    };
    lines.fabrics.iter().map(row).collect()
}

/// Returns the first names with their share of all misses, and the other names as one row.
pub(crate) fn named(all: &[NamedMisses]) -> Vec<[String; 3]> {
    let sum: u64 = all.iter().map(|one| one.misses).sum();
    let row = |name: &str, misses: u64| {
        [
            shortened(name, NAME),
            count(misses),
            percent((misses as f64 / sum.max(1) as f64 * 1000.0).round() / 1000.0),
        ]
    };
    let rest: u64 = all.iter().skip(NAMES).map(|one| one.misses).sum();
    let others = (rest > 0).then(|| row("others", rest));
    all.iter().take(NAMES).map(|one| row(&one.name, one.misses)).chain(others).collect()
}

/// Returns the reasons for which values are withheld, each only once. Reasons that are already among the warnings are left out.
pub(crate) fn withheld(lines: &LinesResult) -> Vec<String> {
    let values = lines.curve.iter().map(|point| &point.slowdown);
    let values = [&lines.predicted_near_s]
        .into_iter()
        .chain(values)
        .chain(lines.fabrics.iter().flat_map(|f| [&f.slowdown, &f.slowdown_closed_loop]));
    let mut reasons: Vec<String> = Vec::new();
    for why in values.filter_map(|value| value.reason()) {
        let is_told = lines.warnings.iter().any(|warning| warning.text == why.text);
        if !is_told && !reasons.contains(&why.text) {
            reasons.push(why.text.clone());
        }
    }
    reasons
}
