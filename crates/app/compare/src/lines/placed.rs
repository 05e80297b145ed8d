//! Placements of a question: rules that decide which pages are in local memory.
//!
//! The recorder decides most placements during the run, at each miss. The hottest pages, and the memory of a name, are known only after the
//! run has ended. Therefore these placements are marked on the recorded windows when the windows are read.

use super::instrumented::Instrumented;
use crate::error::Error;
use unrack_lines::core::NearPages;
use unrack_lines::heat::Hottest;
use unrack_lines::placement::PagePlacement;
use unrack_lines::window::RecordedWindow;
use unrack_units::nearest::hint;
use unrack_units::{Bytes, Share};

/// Rule that selects the pages in local memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacementRule {
    /// No page is near.
    AllFar,
    /// Pages are near and far in turn, in the order of their addresses.
    Interleaved,
    /// Pages in the order of their first misses, until local memory is full.
    FirstTouch,
    /// Pages with the most misses over the whole run.
    Hottest,
    /// Pages are moved by their use, as Linux does with TPP.
    Tiered,
    /// Local memory is a cache of remote memory.
    DramCache,
    /// All memory is near, except the memory with this name.
    AllBut(String),
}

/// Names of the rules.
const NAMES: [&str; 6] = ["all-remote", "interleaved", "first-touch", "hottest", "tiered", "dram-cache"];
/// Prefix of a rule that names the memory to be remote. The second one is its former name.
const REMOTE: [&str; 2] = ["remote:", "far:"];
/// Bytes of a block of the DRAM cache. `WAYS` is its associativity.
const GRANULE_BYTES: u64 = 4096;
const WAYS: u32 = 16;
/// Instructions between two samplings of remote pages. They are the instructions of one second, which is the initial sampling period of
/// Linux, if an instruction takes a nanosecond.
const PERIOD: u64 = 1_000_000_000;
/// Shares of local memory in a map.
const SHARES: [f64; 3] = PagePlacement::SHARES;

impl std::str::FromStr for PlacementRule {
    type Err = String;

    fn from_str(name: &str) -> Result<PlacementRule, String> {
        Ok(match name {
            "all-remote" | "all-far" => PlacementRule::AllFar,
            "interleaved" => PlacementRule::Interleaved,
            "first-touch" => PlacementRule::FirstTouch,
            "hottest" => PlacementRule::Hottest,
            "tiered" => PlacementRule::Tiered,
            "dram-cache" => PlacementRule::DramCache,
            _ => match REMOTE.iter().find_map(|prefix| name.strip_prefix(prefix)) {
                Some("") => return Err("no memory is named: write remote:[heap], for instance".into()),
                Some(memory) => PlacementRule::AllBut(memory.into()),
                None => {
                    let known = NAMES.join(", ");
                    return Err(format!("placements are {known} and remote:NAME{}", hint(name, &NAMES)));
                }
            },
        })
    }
}

/// Placement of one curve.
#[derive(Debug, Clone, PartialEq)]
struct Curve {
    /// Placement in words.
    name: String,
    pages: NearPages,
}

/// Near pages that are known only after the run has ended.
#[derive(Debug, Clone, PartialEq)]
enum Marked {
    /// The hottest pages, up to this share of the pages that had misses.
    Hottest(Share),
    /// All pages except those with this name.
    AllBut(String),
}

/// Placements of a question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlacementSet {
    /// Name of the requested rule.
    pub rule: String,
    /// Description of the size of local memory.
    pub local: String,
    /// Placements that the recorder decides. The index of a placement is its bit in the recorded masks.
    pub recorded: Vec<PagePlacement>,
    /// Bits that are set when windows are read.
    marked: Vec<(u32, Marked)>,
    /// Curves, the requested placement first.
    curves: Vec<Curve>,
}

impl PlacementRule {
    /// Returns the name of the rule.
    pub(crate) fn name(&self) -> String {
        match self {
            PlacementRule::AllFar => "all-remote".into(),
            PlacementRule::Interleaved => "interleaved".into(),
            PlacementRule::FirstTouch => "first-touch".into(),
            PlacementRule::Hottest => "hottest".into(),
            PlacementRule::Tiered => "tiered".into(),
            PlacementRule::DramCache => "dram-cache".into(),
            PlacementRule::AllBut(memory) => format!("{}{memory}", REMOTE[0]),
        }
    }

    /// Returns whether this rule, with this share of local memory, needs the program's footprint.
    pub(crate) fn needs_footprint(&self, local: Share) -> bool {
        match self {
            PlacementRule::AllFar | PlacementRule::Hottest | PlacementRule::AllBut(_) => false,
            PlacementRule::Interleaved => matches!(local, Share::Size(_)),
            PlacementRule::FirstTouch | PlacementRule::Tiered | PlacementRule::DramCache => {
                matches!(local, Share::Fraction(_))
            }
        }
    }

    /// Returns this placement, and for comparison all pages remote, interleaved pages, and the hottest pages at several shares. `footprint`
    /// is needed if [`PlacementRule::needs_footprint`] returns true.
    ///
    /// # Errors
    /// If the footprint is needed and not known.
    pub(crate) fn placed(&self, local: Share, footprint: Option<Bytes>) -> Result<PlacementSet, Error> {
        let text = match self {
            PlacementRule::AllFar => "0%".into(),
            PlacementRule::AllBut(memory) => format!("all but {memory}"),
            _ => local.to_string(),
        };
        let mut placed = PlacementSet::none(self.name(), text);
        placed.add(self, local, footprint)?;
        let fractions = || SHARES.map(fraction);
        placed.add(&PlacementRule::AllFar, local, None)?;
        for (rule, share) in [PlacementRule::Interleaved, PlacementRule::Hottest]
            .iter()
            .flat_map(|r| fractions().map(|s| (r, s)))
        {
            placed.add(rule, share, None)?;
        }
        Ok(placed)
    }
}

fn fraction(share: f64) -> Share {
    let text = format!("{}%", share * 100.0);
    text.parse().expect("a percentage is a share")
}

impl PlacementSet {
    fn none(rule: String, local: String) -> PlacementSet {
        PlacementSet { rule, local, recorded: Vec::new(), marked: Vec::new(), curves: Vec::new() }
    }

    /// Returns every rule at every share of local memory, for a program with this footprint.
    ///
    /// # Errors
    /// Never, because the footprint is given.
    pub(crate) fn map(footprint: Bytes) -> Result<PlacementSet, Error> {
        let mut placed = PlacementSet::none("all".into(), "25% to 75%".into());
        placed.add(&PlacementRule::AllFar, fraction(0.0), None)?;
        let rules = [
            PlacementRule::Interleaved,
            PlacementRule::FirstTouch,
            PlacementRule::Tiered,
            PlacementRule::DramCache,
            PlacementRule::Hottest,
        ];
        for (rule, share) in rules.iter().flat_map(|rule| SHARES.map(|share| (rule, fraction(share)))) {
            placed.add(rule, share, Some(footprint))?;
        }
        Ok(placed)
    }

    /// Adds a placement, unless one with the same name exists.
    fn add(&mut self, rule: &PlacementRule, local: Share, footprint: Option<Bytes>) -> Result<(), Error> {
        let name = match (rule, local) {
            (PlacementRule::AllFar, _) => "all remote".into(),
            (PlacementRule::AllBut(memory), _) => format!("{memory} remote"),
            (_, Share::Fraction(share)) => format!("{:.0} % local, {}", share.get() * 100.0, words(rule)),
            (_, Share::Size(size)) => format!("{size} local, {}", words(rule)),
        };
        if self.curves.iter().any(|curve| curve.name == name) {
            return Ok(());
        }
        let bit = self.recorded.len() as u32;
        let pages =
            if *rule == PlacementRule::AllFar { NearPages::AllFar } else { NearPages::Placement(bit as u8) };
        self.curves.push(Curve { name, pages });
        let near_bytes = || near_bytes(local, footprint);
        let recorded = match rule {
            PlacementRule::AllFar => return Ok(()),
            PlacementRule::Interleaved => {
                PagePlacement::Interleaved { near_share: near_share(local, footprint)? }
            }
            PlacementRule::FirstTouch => PagePlacement::FirstTouch { near_bytes: near_bytes()? },
            PlacementRule::Tiered => PagePlacement::Tiered { near_bytes: near_bytes()?, period: PERIOD },
            PlacementRule::DramCache => {
                let set = GRANULE_BYTES * u64::from(WAYS);
                let near_bytes = near_bytes()?.max(1).next_multiple_of(set);
                PagePlacement::DramCache { near_bytes, granule_bytes: GRANULE_BYTES, ways: WAYS }
            }
            PlacementRule::Hottest => {
                self.marked.push((bit, Marked::Hottest(local)));
                PagePlacement::AllFar
            }
            PlacementRule::AllBut(memory) => {
                self.marked.push((bit, Marked::AllBut(memory.clone())));
                PagePlacement::AllFar
            }
        };
        self.recorded.push(recorded);
        Ok(())
    }

    /// Returns all placements with their names, the requested one first.
    pub(crate) fn all(&self) -> Vec<(String, NearPages)> {
        self.curves.iter().map(|curve| (curve.name.clone(), curve.pages)).collect()
    }

    /// Returns the marks for the recorded windows of each program of a run.
    ///
    /// # Errors
    /// If the named memory does not exist in any program.
    pub(crate) fn marks(&self, run: &Instrumented) -> Result<RecordMarks, Error> {
        let mut records = Vec::new();
        for (process, heat) in run.processes().iter().zip(run.heats()) {
            let marks = self.marked.iter().map(|(bit, marked)| match marked {
                Marked::Hottest(share) => {
                    let all = Bytes::new(heat.ranges.len() as u64 * heat.range_bytes);
                    (*bit, NearMark::Hottest(Hottest::new(heat, share.of(all).get())))
                }
                Marked::AllBut(memory) => {
                    let named = process.summary.mappings.iter().filter(|named| named.name == *memory);
                    (*bit, NearMark::Far(named.flat_map(|named| named.ranges.clone()).collect()))
                }
            });
            records.push(marks.collect());
        }
        let marks = RecordMarks { records };
        let unknown = self.marked.iter().find_map(|(bit, marked)| match marked {
            Marked::AllBut(memory) if !marks.has_far(*bit) => Some(memory),
            _ => None,
        });
        if let Some(memory) = unknown {
            let known = run.named(|summary| &summary.mappings);
            let known: Vec<&str> = known.iter().map(|named| named.name.as_str()).take(10).collect();
            let text = format!(
                "--placement {}{memory}: memory of this name had no miss; names are: {}",
                REMOTE[0],
                known.join("; ")
            );
            return Err(Error::Failed(text));
        }
        Ok(marks)
    }
}

/// Returns the name of a rule for use in the name of a curve.
fn words(rule: &PlacementRule) -> String {
    match rule {
        PlacementRule::FirstTouch => "first touch".into(),
        PlacementRule::DramCache => "DRAM cache".into(),
        _ => rule.name(),
    }
}

/// Returns the share of local memory.
///
/// # Errors
/// If `local` is a size and the footprint is not known.
fn near_share(local: Share, footprint: Option<Bytes>) -> Result<f64, Error> {
    Ok(match local {
        Share::Fraction(share) => share.get(),
        Share::Size(size) => (size.get() as f64 / whole(footprint)?.get().max(1) as f64).min(1.0),
    })
}

/// Returns the size of local memory in bytes.
///
/// # Errors
/// If `local` is a share and the footprint is not known.
fn near_bytes(local: Share, footprint: Option<Bytes>) -> Result<u64, Error> {
    Ok(match local {
        Share::Size(size) => size.get(),
        share @ Share::Fraction(_) => share.of(whole(footprint)?).get(),
    })
}

fn whole(footprint: Option<Bytes>) -> Result<Bytes, Error> {
    let text = "the footprint is needed for this --placement and --local: give a share with interleaved, or a size with \
                first-touch, tiered and dram-cache";
    footprint.ok_or_else(|| Error::Usage(text.into()))
}

/// Marks of all records of a run.
#[derive(Debug, Default)]
pub(crate) struct RecordMarks {
    records: Vec<Vec<(u32, NearMark)>>,
}

/// Pages that are in local memory according to one bit of the recorded masks.
#[derive(Debug)]
enum NearMark {
    Hottest(Hottest),
    /// Pages outside these ranges.
    Far(Vec<(u64, u64)>),
}

impl RecordMarks {
    /// Marks a window of a record.
    pub(crate) fn mark(&self, record: usize, window: &mut RecordedWindow) {
        for (bit, mark) in self.records.get(record).into_iter().flatten() {
            match mark {
                NearMark::Hottest(hottest) => hottest.mark(window, *bit),
                NearMark::Far(ranges) => {
                    window.mark(*bit, |address| {
                        !ranges.iter().any(|(start, end)| (*start..*end).contains(&address))
                    });
                }
            }
        }
    }

    fn has_far(&self, bit: u32) -> bool {
        let far = |(of, mark): &(u32, NearMark)| {
            *of == bit && matches!(mark, NearMark::Far(ranges) if !ranges.is_empty())
        };
        self.records.iter().flatten().any(far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_lines::window::{LineAccess, ServedBy, WalkLoads};

    fn share(text: &str) -> Share {
        text.parse().unwrap()
    }

    fn names(placed: &PlacementSet) -> Vec<String> {
        placed.all().into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_share_and_a_size_become_what_the_recorder_takes() {
        let placed = PlacementRule::Interleaved.placed(share("25%"), None).unwrap();
        assert_eq!(placed.recorded.len(), 6, "25 % interleaved is one of the usual ones");
        assert_eq!(names(&placed)[..3], ["25 % local, interleaved", "all remote", "50 % local, interleaved"]);
        assert_eq!(placed.all()[2].1, NearPages::Placement(1));
        let whole = Some(Bytes::new(8 << 20));
        let placed = PlacementRule::FirstTouch.placed(share("50%"), whole).unwrap();
        assert_eq!(placed.recorded[0], PagePlacement::FirstTouch { near_bytes: 4 << 20 });
        let placed = PlacementRule::Interleaved.placed(share("2MiB"), whole).unwrap();
        assert_eq!(placed.recorded[0], PagePlacement::Interleaved { near_share: 0.25 });
        let placed = PlacementRule::AllFar.placed(share("25%"), None).unwrap();
        assert_eq!((placed.local.as_str(), placed.all()[0].1), ("0%", NearPages::AllFar));
    }

    #[test]
    fn a_map_has_every_rule_at_every_share() {
        let placed = PlacementSet::map(Bytes::new(1 << 30)).unwrap();
        assert_eq!((placed.all().len(), placed.recorded.len()), (16, 15), "all remote takes no bit");
        assert!(names(&placed).contains(&"75 % local, DRAM cache".into()));
        // The recorder can parse each of the placements.
        for placement in &placed.recorded {
            assert_eq!(placement.to_string().parse::<PagePlacement>().as_ref(), Ok(placement));
        }
    }

    #[test]
    fn a_footprint_that_is_needed_is_asked_for() {
        for (rule, local, needs) in [
            (PlacementRule::AllFar, "2MiB", false),
            (PlacementRule::Interleaved, "25%", false),
            (PlacementRule::Interleaved, "2MiB", true),
            (PlacementRule::FirstTouch, "25%", true),
            (PlacementRule::FirstTouch, "2MiB", false),
            (PlacementRule::Hottest, "25%", false),
            (PlacementRule::Hottest, "2MiB", false),
            (PlacementRule::Tiered, "25%", true),
            (PlacementRule::DramCache, "2MiB", false),
            (PlacementRule::AllBut("[heap]".into()), "25%", false),
        ] {
            assert_eq!(rule.needs_footprint(share(local)), needs, "{rule:?}");
            assert_eq!(rule.placed(share(local), None).is_err(), needs, "{rule:?}");
        }
    }

    #[test]
    fn rules_are_read_as_they_are_named() {
        for name in NAMES.into_iter().chain(["remote:[heap]", "remote:/usr/lib/libstdc++.so.6"]) {
            assert_eq!(name.parse::<PlacementRule>().unwrap().name(), name);
        }
        let wrong = "hotest".parse::<PlacementRule>().unwrap_err();
        assert!(wrong.contains("did you mean `hottest`"), "{wrong}");
        assert!("remote:".parse::<PlacementRule>().is_err());
        for (former, name) in [("all-far", "all-remote"), ("far:[heap]", "remote:[heap]")] {
            assert_eq!(former.parse::<PlacementRule>(), name.parse());
        }
    }

    #[test]
    fn memory_of_a_name_is_far_and_all_else_near() {
        let marks = RecordMarks { records: vec![vec![(3, NearMark::Far(vec![(4096, 8192)]))]] };
        let access = |address| LineAccess {
            instruction: 0,
            address,
            bytes: 8,
            is_store: false,
            served: ServedBy::Memory,
            near: 0b1001,
            walk: WalkLoads::default(),
        };
        let mut window =
            RecordedWindow { accesses: [0, 4096, 8192].map(access).into(), ..Default::default() };
        marks.mark(0, &mut window);
        let near: Vec<u16> = window.accesses.iter().map(|access| access.near).collect();
        assert_eq!(near, [0b1001, 0b0001, 0b1001]);
        assert!(marks.has_far(3) && !marks.has_far(2));
    }
}
