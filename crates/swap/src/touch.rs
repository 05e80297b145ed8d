//! The program by which the cost of a fault is measured: touches one word of every page in random order, pass after
//! pass, so that each touch swaps one page in, and another out.

use memmap2::{Advice, MmapMut};
use std::fmt::Write as _;
use std::io::Write;
use std::time::Instant;
use unrack_basis::{PAGE, SplitMix64};

/// Measured passes.
const PASSES: usize = 5;

/// Times of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Touched {
    /// Time in ns of a page that is first written while there is room.
    pub fresh_ns: f64,
    /// Time in ns of a page that is first written while another must leave for it.
    pub crowded_ns: f64,
    /// Time in ns of a touch that swaps in, of each pass.
    pub fault_ns: Vec<f64>,
}

/// Touches `pages` pages, filled with those in `contents` again and again, and writes what [`Touched::parse`] reads.
///
/// # Errors
/// If there are no contents or no memory, or `out` cannot be written.
pub fn touch(pages: usize, contents: &[u8], mut out: impl Write) -> std::io::Result<()> {
    let contents: Vec<&[u8]> = contents.chunks_exact(PAGE).collect();
    if contents.is_empty() || pages < 8 {
        return Err(std::io::Error::other("nothing to touch"));
    }
    let mut numbers = SplitMix64::new(1);
    let mut memory = MmapMut::map_anon(pages * PAGE)?;
    // Large pages would follow other rules.
    memory.advise(Advice::NoHugePage)?;
    let mut fill = |pages: std::ops::Range<usize>| {
        let (start, count) = (Instant::now(), pages.len());
        for n in pages {
            memory[n * PAGE..][..PAGE].copy_from_slice(contents[n % contents.len()]);
        }
        start.elapsed().as_nanos() as f64 / count as f64
    };
    // The first eighth has room, and the second half has none, at any share between.
    let fresh_ns = fill(0..pages / 8);
    fill(pages / 8..pages / 2);
    let crowded_ns = fill(pages / 2..pages);
    let order = order(pages, &mut numbers);
    let mut text = format!("{fresh_ns} {crowded_ns}");
    // The first pass fetches what the filling left in its own order.
    for pass in 0..=PASSES {
        let (before, start) = (major_faults(), Instant::now());
        for page in &order {
            let word = &mut memory[*page as usize * PAGE];
            *word = word.wrapping_add(1);
        }
        let faults = major_faults() - before;
        if pass > 0 {
            let _ = write!(text, " {}", start.elapsed().as_nanos() as f64 / faults.max(1) as f64);
        }
    }
    writeln!(out, "{text}")
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

/// Returns the major faults of this process so far (proc_pid_stat(5), field 12).
fn major_faults() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().nth(9).and_then(|field| field.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut text = Vec::new();
        touch(64, &[3; 5 * PAGE], &mut text).unwrap();
        let touched = Touched::parse(std::str::from_utf8(&text).unwrap()).unwrap();
        assert!(
            touched.fresh_ns > 0.0 && touched.crowded_ns > 0.0 && touched.fault_ns.iter().all(|ns| *ns > 0.0)
        );
        assert!(touch(64, &[], &mut Vec::new()).is_err(), "no contents");
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
