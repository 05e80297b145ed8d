//! `touch`: measures the cost of fetching a page. It maps memory, writes it, then touches one word of each page, pass after pass, and
//! prints the time and the faults of each pass. Several threads divide the pages among them, and the time of a page is the time that its
//! thread took for it.

use crate::model::Rng;
use crate::sys;
use clap::{Args, ValueEnum};
use std::time::Instant;
use unrack_basis::PAGE;
use unrack_units::Bytes;

#[derive(Args)]
pub(crate) struct TouchOptions {
    /// Memory to touch
    #[arg(long, default_value = "256MiB")]
    memory: Bytes,
    /// Passes that are measured, after one that fills the memory
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    passes: u16,
    /// Threads that touch pages at the same time, each its share
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Order in which pages are touched
    #[arg(long, value_enum, default_value_t = TouchOrder::Random)]
    order: TouchOrder,
    /// Access to each page
    #[arg(long, value_enum, default_value_t = TouchPattern::Write)]
    access: TouchPattern,
    /// Print one line of JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum TouchOrder {
    Sequential,
    Random,
}

#[derive(Clone, Copy, ValueEnum)]
enum TouchPattern {
    Read,
    Write,
}

/// Page faults of this process so far.
struct FaultCounts {
    minor: i64,
    major: i64,
}

impl FaultCounts {
    fn so_far() -> FaultCounts {
        // SAFETY: `rusage` is plain data, alive for the call.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        FaultCounts { minor: usage.ru_minflt, major: usage.ru_majflt }
    }
}

/// Time and page faults of one pass over the memory.
struct TouchPass {
    /// Sum of the times of all threads.
    ns: u64,
    minor: i64,
    major: i64,
}

/// Runs the passes, and prints the report.
pub(crate) fn run(args: &TouchOptions) {
    let pages = (args.memory.get() as usize / PAGE).max(1);
    let base = sys::map(pages, sys::READ_WRITE, sys::ANONYMOUS, -1);
    // Large pages are disabled, because their faults have other costs.
    sys::advise(base, pages, libc::MADV_NOHUGEPAGE, true);
    let order = order(pages, args.order);
    for &page in &order {
        stamp(base, page, 0);
    }
    let passes: Vec<TouchPass> = (1..=u64::from(args.passes)).map(|n| pass(base, &order, args, n)).collect();
    report(args, pages, &passes);
}

/// Returns the order in which pages are touched. The list itself stays in memory: it takes 4 bytes per page of 4096.
fn order(pages: usize, order: TouchOrder) -> Vec<u32> {
    let mut list: Vec<u32> = (0..pages as u32).collect();
    if matches!(order, TouchOrder::Random) {
        let mut rng = Rng::new(1);
        for i in (1..pages).rev() {
            list.swap(i, rng.below(i + 1));
        }
    }
    list
}

/// Touches each page once, with the requested number of threads.
fn pass(base: usize, order: &[u32], args: &TouchOptions, n: u64) -> TouchPass {
    let (access, threads) = (args.access, usize::from(args.threads));
    let before = FaultCounts::so_far();
    let start = Instant::now();
    match threads {
        1 => touch_each(base, order, access, n),
        _ => std::thread::scope(|scope| {
            for share in order.chunks(order.len().div_ceil(threads)) {
                scope.spawn(move || touch_each(base, share, access, n));
            }
        }),
    }
    let ns = start.elapsed().as_nanos() as u64 * threads as u64;
    let after = FaultCounts::so_far();
    TouchPass { ns, minor: after.minor - before.minor, major: after.major - before.major }
}

/// Touches pages once, and checks the word of each page.
fn touch_each(base: usize, order: &[u32], access: TouchPattern, n: u64) {
    for &page in order {
        let found = word(base, page);
        let written = if matches!(access, TouchPattern::Write) { n - 1 } else { 0 };
        assert_eq!(found, value(page, written), "page {page} holds the wrong word");
        if matches!(access, TouchPattern::Write) {
            stamp(base, page, n);
        }
    }
}

/// Returns the expected word of a page after pass `n`.
fn value(page: u32, n: u64) -> u64 {
    (u64::from(page) << 32) | n
}

fn word(base: usize, page: u32) -> u64 {
    // SAFETY: the page is inside the mapping and aligned.
    unsafe { ((base + page as usize * PAGE) as *const u64).read_volatile() }
}

fn stamp(base: usize, page: u32, n: u64) {
    // SAFETY: the page is inside the mapping and aligned.
    unsafe { ((base + page as usize * PAGE) as *mut u64).write_volatile(value(page, n)) }
}

fn report(args: &TouchOptions, pages: usize, passes: &[TouchPass]) {
    let per_page = sorted(passes.iter().map(|p| p.ns as f64 / pages as f64));
    let per_major = sorted(passes.iter().filter(|p| p.major > 0).map(|p| p.ns as f64 / p.major as f64));
    let middle = |list: &[f64]| list.get(list.len() / 2).copied();
    let (minor, major): (i64, i64) = passes.iter().fold((0, 0), |(a, b), p| (a + p.minor, b + p.major));
    if args.json {
        let text = |v: Option<f64>| v.map_or("null".into(), |v| format!("{v:.1}"));
        println!(
            "{{\"pages\":{pages},\"passes\":{},\"ns_per_page_min\":{},\"ns_per_page_median\":{},\"minor_faults\":{minor},\"major_faults\":{major},\"ns_per_major_min\":{},\"ns_per_major_median\":{}}}",
            passes.len(),
            text(per_page.first().copied()),
            text(middle(&per_page)),
            text(per_major.first().copied()),
            text(middle(&per_major)),
        );
        return;
    }
    for (n, p) in passes.iter().enumerate() {
        println!(
            "pass {}: {} ns a page, {} minor and {} major faults",
            n + 1,
            p.ns / pages as u64,
            p.minor,
            p.major
        );
    }
    println!(
        "{pages} pages: min {:.0}, median {:.0} ns a page",
        per_page[0],
        middle(&per_page).unwrap_or(0.0)
    );
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut list: Vec<f64> = values.collect();
    list.sort_by(f64::total_cmp);
    list
}
