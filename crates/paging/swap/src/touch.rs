//! The program that measures the cost of a fault. It touches one word of every page in random order, pass after pass, so that each touch
//! swaps one page in and another one out.

use memmap2::{Advice, MmapMut};
use std::io::Write;
use std::sync::Barrier;
use std::time::Instant;
use unrack_basis::{PAGE, SplitMix64};

/// Number of measured passes.
const PASSES: usize = 5;

/// Times that the program measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Touched {
    /// Mean time in ns to first write a page while there is room.
    pub fresh_ns: f64,
    /// Mean time in ns to first write a page while another page must be swapped out for it.
    pub crowded_ns: f64,
    /// Mean time in ns of a touch that swaps a page in, for each pass.
    pub fault_ns: Vec<f64>,
}

/// Touches `pages` pages, which are filled with the pages in `contents` repeatedly, and writes the line that [`Touched::parse`] reads. Each
/// of `threads` threads touches a separate part at the same time. Several threads are useful because, when a page is swapped out, all cores
/// that run one of them must drop the page's translation.
///
/// # Errors
/// If there are no contents or no memory, or `out` cannot be written.
pub fn touch(pages: usize, threads: usize, contents: &[u8], mut out: impl Write) -> std::io::Result<()> {
    let contents: Vec<&[u8]> = contents.chunks_exact(PAGE).collect();
    let each = pages / threads.max(1);
    if contents.is_empty() || threads == 0 || each < 8 {
        return Err(std::io::Error::other("nothing to touch"));
    }
    let mut memory = MmapMut::map_anon(each * threads * PAGE)?;
    // Large pages would follow other rules.
    memory.advise(Advice::NoHugePage)?;
    let barrier = &Barrier::new(threads);
    let found: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let parts = memory.chunks_exact_mut(each * PAGE).zip(1..);
        let running: Vec<_> = parts
            .map(|(part, seed)| {
                scope.spawn({
                    let contents = &contents;
                    move || touch_part(part, contents, seed, barrier)
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("touching does not panic")).collect()
    });
    let mean = |n: usize| found.iter().map(|times| times[n]).sum::<f64>() / threads as f64;
    let text: Vec<String> = (0..found[0].len()).map(|n| mean(n).to_string()).collect();
    writeln!(out, "{}", text.join(" "))
}

/// Touches the part of one thread. Returns the numbers for the output line, in the line's order.
fn touch_part(part: &mut [u8], contents: &[&[u8]], seed: u64, barrier: &Barrier) -> Vec<f64> {
    let pages = part.len() / PAGE;
    let mut fill = |pages: std::ops::Range<usize>| {
        barrier.wait();
        let (start, count) = (Instant::now(), pages.len());
        for n in pages {
            part[n * PAGE..][..PAGE].copy_from_slice(contents[n % contents.len()]);
        }
        start.elapsed().as_nanos() as f64 / count as f64
    };
    // Whatever share of memory is local, the first eighth of the pages has room and the second half has none.
    let fresh_ns = fill(0..pages / 8);
    fill(pages / 8..pages / 2);
    let crowded_ns = fill(pages / 2..pages);
    let order = order(pages, &mut SplitMix64::new(seed));
    let mut times = vec![fresh_ns, crowded_ns];
    // The first pass is not counted, because it finds the pages in the state that the filling left.
    for pass in 0..=PASSES {
        barrier.wait();
        let (before, start) = (major_faults(), Instant::now());
        for page in &order {
            let word = &mut part[*page as usize * PAGE];
            *word = word.wrapping_add(1);
        }
        let faults = major_faults() - before;
        if pass > 0 {
            times.push(start.elapsed().as_nanos() as f64 / faults.max(1) as f64);
        }
    }
    times
}

impl Touched {
    /// Parses the line that [`touch`] wrote.
    pub fn parse(text: &str) -> Option<Touched> {
        let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
        let [fresh_ns, crowded_ns, fault_ns @ ..] = &numbers.ok()?[..] else { return None };
        let fault_ns = fault_ns.to_vec();
        (fault_ns.len() == PASSES).then_some(Touched {
            fresh_ns: *fresh_ns,
            crowded_ns: *crowded_ns,
            fault_ns,
        })
    }
}

fn order(pages: usize, numbers: &mut SplitMix64) -> Vec<u32> {
    let mut list: Vec<u32> = (0..pages as u32).collect();
    for i in (1..pages).rev() {
        list.swap(i, (numbers.next_u64() % (i as u64 + 1)) as usize);
    }
    list
}

/// Returns the number of major faults of this thread so far (proc_pid_stat(5), field 12).
fn major_faults() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().nth(9).and_then(|field| field.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for threads in [1, 2, 5] {
            let mut text = Vec::new();
            touch(64, threads, &[3; 5 * PAGE], &mut text).unwrap();
            let touched = Touched::parse(std::str::from_utf8(&text).unwrap()).unwrap();
            let Touched { fresh_ns, crowded_ns, fault_ns } = touched;
            assert!(fresh_ns > 0.0 && crowded_ns > 0.0 && fault_ns.iter().all(|ns| *ns > 0.0));
        }
        assert!(touch(64, 1, &[], &mut Vec::new()).is_err(), "no contents");
        assert!(touch(64, 0, &[3; PAGE], &mut Vec::new()).is_err(), "no thread");
        assert!(touch(64, 9, &[3; PAGE], &mut Vec::new()).is_err(), "seven pages each");
        for damaged in ["", "1 2", "1 2 3 4 5 6", "1 2 a 4 5 6 7"] {
            assert_eq!(Touched::parse(damaged), None);
        }
    }

    #[test]
    fn every_page_comes_once() {
        let mut list = order(1000, &mut SplitMix64::new(1));
        assert_ne!(list[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        list.sort_unstable();
        assert!(list.iter().copied().eq(0..1000));
    }
}
