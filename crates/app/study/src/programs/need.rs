//! Least local memory that each program needs on a network, which is the memory that a rack must leave at its servers.

use super::map::{ALLOWED, MappedProgram, NetworkPoint};
use std::fmt::Write;

/// Networks of the table: DDC's two targets, and two networks that are faster than the paper requires.
const NETWORKS: [NetworkPoint; 4] = [
    NetworkPoint { name: "5 us, 40 Gb/s", latency_ns: 5e3, rate_bps: 40_000_000_000 },
    NetworkPoint { name: "3 us, 100 Gb/s", latency_ns: 3e3, rate_bps: 100_000_000_000 },
    NetworkPoint { name: "1 us, 200 Gb/s", latency_ns: 1e3, rate_bps: 200_000_000_000 },
    NetworkPoint { name: "0.5 us, 200 Gb/s", latency_ns: 500.0, rate_bps: 200_000_000_000 },
];

/// Bits of a page.
const PAGE_BITS: f64 = 4096.0 * 8.0;

/// Local memory that is enough to keep the loss within 5 %, in percent of the footprint.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NeededMemory {
    Share(f64),
    /// More than the largest share that was measured.
    MoreThan(f64),
}

/// Returns the table of needed local memory and a description of it, or an empty text if no program was measured at several shares.
pub fn text(mapped: &[MappedProgram]) -> String {
    let several: Vec<&MappedProgram> = mapped.iter().filter(|mapped| mapped.map.locals.len() > 1).collect();
    if several.is_empty() {
        return String::new();
    }
    let names = NETWORKS.map(|network| network.name).join(" | ");
    let mut text = format!(
        "\nLocal memory for a loss of 5 % at most:\n\n| program | {names} |\n|---|{}\n",
        "--:|".repeat(4)
    );
    for mapped in &several {
        let cells = NETWORKS.map(|network| match needed(mapped, network) {
            Some(NeededMemory::Share(share)) => format!("{share} %"),
            Some(NeededMemory::MoreThan(share)) => format!("> {share} %"),
            None => "–".into(),
        });
        let _ = writeln!(text, "| {} | {} |", mapped.program.name, cells.join(" | "));
    }
    text.push('\n');
    for network in NETWORKS {
        let _ = writeln!(text, "- {}", sentence(&several, network));
    }
    text
}

/// Returns a description of the number of pages that a program may fetch per second, which is the acceptable loss divided by the
/// time of a page.
fn allowance(network: NetworkPoint) -> String {
    let page_ns = network.latency_ns + PAGE_BITS * 1e9 / network.rate_bps as f64;
    let pages = ALLOWED / 100.0 * 1e9 / page_ns;
    format!("{:.1} us for a page: 5 % are {:.0},000 pages in a second", page_ns / 1e3, pages / 1e3)
}

/// Returns a sentence with the local memory that each program needs on a network.
fn sentence(several: &[&MappedProgram], network: NetworkPoint) -> String {
    let (mut enough, mut more) = (Vec::new(), Vec::new());
    for mapped in several {
        let name = &mapped.program.name;
        match needed(mapped, network) {
            Some(NeededMemory::Share(share)) => enough.push(format!("{name} with {share} % local")),
            Some(NeededMemory::MoreThan(share)) => more.push(format!("{name} with {share} % local")),
            None => {}
        }
    }
    let mut words = format!("With {} ({}), ", network.name, allowance(network));
    words += &match enough.is_empty() {
        true => "no program keeps within 5 %".to_string(),
        false => format!("within 5 % are {}", enough.join(", ")),
    };
    if !more.is_empty() {
        words += &format!("; above are {}", more.join(", "));
    }
    words + "."
}

/// Returns the smallest measured local share for which a program's loss is acceptable at this share and at all larger ones. Shares
/// below a share whose answer is withheld do not count. Returns `None` if the answer of the largest share is withheld.
fn needed(mapped: &MappedProgram, network: NetworkPoint) -> Option<NeededMemory> {
    let mut needed = None;
    for local in mapped.map.locals.iter().rev() {
        let share = local.local.trim_end_matches('%').parse().ok()?;
        let is_allowed = mapped.loss(&local.local, network).map(|loss| loss.value <= ALLOWED);
        match (is_allowed, needed) {
            (Some(true), _) => needed = Some(NeededMemory::Share(share)),
            (Some(false), None) => return Some(NeededMemory::MoreThan(share)),
            (_, known) => return known,
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::super::map::mapped;
    use super::super::map::tests::{found, map, programs};
    use super::super::program::{ProgramClass, ProgramFound};
    use super::*;

    #[test]
    fn the_least_share_is_one_above_which_all_suffice() {
        let programs = programs(&[ProgramClass::Shark; 4]);
        let mut withheld = map(&[("25%", 1.0), ("40%", 2.0), ("60%", 3.0)], 1);
        withheld.locals[1].slowdown = None;
        let maps = [
            map(&[("25%", 8.0), ("40%", 4.0), ("60%", 1.0)], 1),
            map(&[("25%", 4.0), ("40%", 6.0), ("60%", 2.0)], 1),
            map(&[("25%", 90.0), ("40%", 60.0), ("60%", 30.0)], 1),
            withheld,
        ];
        let found: Vec<ProgramFound> = found(&maps);
        let mapped = mapped(&programs, &found);
        let of = |n: usize| needed(&mapped[n], NETWORKS[0]);
        let expected = [
            NeededMemory::Share(40.0),
            NeededMemory::Share(60.0),
            NeededMemory::MoreThan(60.0),
            NeededMemory::Share(60.0),
        ];
        assert_eq!([of(0), of(1), of(2), of(3)], expected.map(Some));
        let text = text(&mapped);
        // A loss of 8 % at 5 us is 4.8 % at 3 us. These maps have no links of 200 Gb/s.
        assert!(text.contains("| p0 | 40 % | 25 % | – | – |\n| p1 | 60 % | 25 % |"), "{text}");
        assert!(
            text.contains(
                "- With 5 us, 40 Gb/s (5.8 us for a page: 5 % are 9,000 pages in a second), within 5 % are p0 with 40 % local, p1 \
                 with 60 % local, p3 with 60 % local; above are p2 with 60 % local."
            ),
            "{text}"
        );
    }

    #[test]
    fn one_share_says_nothing_of_the_least() {
        let (programs, found) = (programs(&[ProgramClass::Shark]), found(&[map(&[("25%", 1.0)], 1)]));
        assert_eq!(text(&mapped(&programs, &found)), "");
    }
}
