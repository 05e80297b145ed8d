//! Placements of pages in local and remote memory. All placements of a run are evaluated at each access that misses all
//! caches.

mod dram_cache;
mod text;
mod tiered;

use crate::processor::ProcessorError;
use dram_cache::DramCache;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use tiered::Tiered;

/// Binary logarithm of the bytes of a page.
pub(crate) const PAGE_SHIFT: u32 = 12;
/// Maximum number of placements in a run. It is the number of bits of a mask, which has one bit for each placement.
pub const PLACEMENTS: usize = 16;

/// Placement of a program's 4 KiB pages. Its textual form is a name with parameters, for example `interleaved:0.5`.
#[derive(Clone, Debug, PartialEq)]
pub enum PagePlacement {
    /// All pages are in local memory.
    AllNear,
    /// All pages are in remote memory.
    AllFar,
    /// Near and remote pages alternate, so that any sequence of successive pages contains about the given share of near
    /// pages.
    Interleaved {
        /// Share of local pages, 0 to 1.
        near_share: f64,
    },
    /// Pages are placed in local memory in the order of their first misses until local memory is full. All later pages
    /// are far.
    FirstTouch {
        /// Size of local memory, in bytes.
        near_bytes: u64,
    },
    /// The kernel moves pages between local and remote memory according to their use, as Linux does with TPP (Maruf et al.,
    /// ASPLOS 2023).
    Tiered {
        /// Size of local memory, in bytes.
        near_bytes: u64,
        /// Number of instructions, of all threads together, between two samplings of remote pages by the kernel. Linux
        /// initially samples once per second (`numa_balancing_scan_period_min_ms`).
        period: u64,
    },
    /// Local memory is a hardware-managed cache of remote memory, as in DRack (Zhang et al., USENIX ATC 2025, section 5.2).
    DramCache {
        /// Size of local memory, in bytes.
        near_bytes: u64,
        /// Size of a granule, which is the unit that is copied to local memory, in bytes. It is a power of two of at
        /// least 64.
        granule_bytes: u64,
        /// Associativity: number of granules per set.
        ways: u32,
    },
    /// Pages are far in the address ranges that
    /// [`Hierarchy::set_far_ranges`](crate::hierarchy::Hierarchy::set_far_ranges) sets, and near elsewhere. Initially,
    /// no range is far.
    Ranges,
}

impl PagePlacement {
    /// Default shares of local memory in the total memory of a program.
    pub const SHARES: [f64; 3] = [0.25, 0.5, 0.75];

    /// Returns the default placements: all pages near, all pages remote, and interleaved pages with each default share of
    /// local pages. If the program's footprint (in bytes) is known, first-touch placements are added, whose near
    /// memories have the default shares of the footprint.
    pub fn usual(footprint: Option<u64>) -> Vec<PagePlacement> {
        let interleaved = Self::SHARES.map(|near_share| PagePlacement::Interleaved { near_share });
        let near_bytes = |share: f64, bytes: u64| (share * bytes as f64) as u64;
        let first_touch = footprint.into_iter().flat_map(|bytes| {
            Self::SHARES.map(|share| PagePlacement::FirstTouch { near_bytes: near_bytes(share, bytes) })
        });
        [PagePlacement::AllNear, PagePlacement::AllFar]
            .into_iter()
            .chain(interleaved)
            .chain(first_touch)
            .collect()
    }
}

/// Placements of one run, with the state of each placement.
#[derive(Clone, Debug)]
pub(crate) struct Placements {
    all: Vec<State>,
    /// Last requested page, and the bit mask of the placements in which this page is near. The mask covers only the
    /// placements that never move a page.
    last: Option<(u64, u16)>,
    /// Whether at least one placement moves pages.
    has_moving: bool,
}

/// Amount of memory that a placement has copied between local and remote memory, in addition to the lines that the program
/// requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedBytes {
    /// Number of bytes copied to local memory: promoted pages, or granules that were copied into a DRAM cache.
    pub into_near_bytes: u64,
    /// Number of bytes copied to remote memory: demoted pages, or modified granules that were evicted from a DRAM cache.
    pub out_of_near_bytes: u64,
    /// Number of hint faults: accesses that entered the kernel because the kernel had unmapped the page in order to
    /// sample accesses to it.
    pub hint_faults: u64,
}

/// Kind of a request to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    Read,
    Write,
}

#[derive(Clone, Debug)]
enum State {
    Constant(bool),
    /// Share of local pages, in units of 2^-32. Page `n` is near if the whole part of `(n + 1) * share` is greater than
    /// the whole part of `n * share`.
    Interleaved(u64),
    /// Near pages, remote pages, and the capacity of local memory in pages. A page stays in near or remote memory until the
    /// program releases it, because Linux does not move pages without tiering.
    FirstTouch {
        near: HashSet<u64>,
        far: HashSet<u64>,
        pages: u64,
    },
    Tiered(Tiered),
    DramCache(DramCache),
    Ranges(Vec<(u64, u64)>),
}

/// Maximum number of granules of a DRAM cache. With this number, the state of the simulated cache takes half a GiB.
const GRANULES: u64 = 1 << 26;

impl Placements {
    /// Creates the state of the placements of a run, before any page is placed.
    ///
    /// # Errors
    /// If there are more than 16 placements, or if a parameter of a placement is out of its range.
    pub(crate) fn new(placements: &[PagePlacement]) -> Result<Placements, ProcessorError> {
        if placements.len() > PLACEMENTS {
            return Err(ProcessorError::Placements(placements.len()));
        }
        let all = placements.iter().map(State::new).collect::<Result<Vec<_>, _>>()?;
        let has_moving = all.iter().any(State::is_moving);
        Ok(Placements { all, last: None, has_moving })
    }

    pub(crate) fn set_far_ranges(&mut self, placement: usize, ranges: &[(u64, u64)]) {
        if let Some(State::Ranges(far)) = self.all.get_mut(placement) {
            *far = ranges.to_vec();
            self.last = None;
        }
    }

    /// Removes a page that the program has released from the state of all placements.
    pub(crate) fn forget(&mut self, page: u64) {
        self.last = None;
        self.all.iter_mut().for_each(|state| state.forget(page));
    }

    /// Returns the bit mask of the placements in which the page that contains `address` is near.
    pub(crate) fn near(&mut self, address: u64, asked: AccessKind) -> u16 {
        let page = address >> PAGE_SHIFT;
        let staying = match self.last {
            Some((last, mask)) if last == page => mask,
            _ => self.mask(|state| (!state.is_moving()).then(|| state.is_near(page))),
        };
        self.last = Some((page, staying));
        match self.has_moving {
            true => staying | self.mask(|state| state.is_near_now(address, asked)),
            false => staying,
        }
    }

    /// Returns the bit mask of the placements for which `is_near` returns `Some(true)`.
    fn mask(&mut self, is_near: impl Fn(&mut State) -> Option<bool>) -> u16 {
        let bits = self.all.iter_mut().enumerate();
        bits.fold(0, |mask, (bit, state)| mask | u16::from(is_near(state) == Some(true)) << bit)
    }

    /// Advances the time of the placements to `instructions`, which is the number of instructions that all threads
    /// together have executed.
    pub(crate) fn advance(&mut self, instructions: u64) {
        for state in &mut self.all {
            if let State::Tiered(tiered) = state {
                tiered.advance(instructions);
            }
        }
    }

    /// Resets the counts of moved memory and the number of executed instructions to 0.
    pub(crate) fn forget_counts(&mut self) {
        for state in &mut self.all {
            match state {
                State::Tiered(tiered) => tiered.forget_counts(),
                State::DramCache(cache) => cache.forget_counts(),
                State::Constant(_) | State::Interleaved(_) | State::FirstTouch { .. } | State::Ranges(_) => {}
            }
        }
    }

    /// Returns the amount of memory that each placement has moved since the counts were last reset.
    pub(crate) fn moved(&self) -> Vec<MovedBytes> {
        self.all.iter().map(State::moved).collect()
    }
}

impl State {
    fn new(placement: &PagePlacement) -> Result<State, ProcessorError> {
        Ok(match *placement {
            PagePlacement::AllNear => State::Constant(true),
            PagePlacement::AllFar => State::Constant(false),
            PagePlacement::Interleaved { near_share } if (0.0..=1.0).contains(&near_share) => {
                State::Interleaved((near_share * f64::from(1u32 << 31) * 2.0).round() as u64)
            }
            PagePlacement::Interleaved { near_share } => {
                return Err(ProcessorError::Share(near_share.to_string()));
            }
            PagePlacement::FirstTouch { near_bytes } => {
                let (near, far) = (HashSet::new(), HashSet::new());
                State::FirstTouch { near, far, pages: near_bytes >> PAGE_SHIFT }
            }
            PagePlacement::Tiered { near_bytes, period } => {
                State::Tiered(Tiered::new(near_bytes >> PAGE_SHIFT, period.max(1)))
            }
            PagePlacement::DramCache { near_bytes, granule_bytes, ways } => {
                let is_granule = granule_bytes.is_power_of_two() && granule_bytes >= 64;
                let granules = near_bytes.checked_div(granule_bytes).unwrap_or(0);
                if !is_granule
                    || !(1..=256).contains(&ways)
                    || !(u64::from(ways)..=GRANULES).contains(&granules)
                {
                    return Err(ProcessorError::DramCache(placement.to_string()));
                }
                State::DramCache(DramCache::new(near_bytes, granule_bytes, ways))
            }
            PagePlacement::Ranges => State::Ranges(Vec::new()),
        })
    }

    /// Returns whether the placement can move pages between local and remote memory during a run.
    fn is_moving(&self) -> bool {
        matches!(self, State::Tiered(_) | State::DramCache(_))
    }

    /// For a placement that moves pages, handles a request to `address` and returns whether its page is near. Returns
    /// `None` for a placement that never moves pages.
    fn is_near_now(&mut self, address: u64, asked: AccessKind) -> Option<bool> {
        match (self, asked) {
            (State::Tiered(tiered), _) => Some(tiered.use_page(address >> PAGE_SHIFT)),
            (State::DramCache(cache), AccessKind::Read) => Some(cache.read(address)),
            (State::DramCache(cache), AccessKind::Write) => Some(cache.write(address)),
            _ => None,
        }
    }

    fn moved(&self) -> MovedBytes {
        match self {
            State::Tiered(tiered) => {
                let moves = tiered.moves();
                MovedBytes {
                    into_near_bytes: moves.promoted << PAGE_SHIFT,
                    out_of_near_bytes: moves.demoted << PAGE_SHIFT,
                    hint_faults: moves.hint_faults,
                }
            }
            State::DramCache(cache) => {
                let [into_near_bytes, out_of_near_bytes] = cache.moved_bytes();
                MovedBytes { into_near_bytes, out_of_near_bytes, hint_faults: 0 }
            }
            _ => MovedBytes::default(),
        }
    }

    fn forget(&mut self, page: u64) {
        match self {
            State::FirstTouch { near, far, .. } => {
                near.remove(&page);
                far.remove(&page);
            }
            State::Tiered(tiered) => tiered.forget(page),
            State::DramCache(cache) => cache.forget(page),
            State::Constant(_) | State::Interleaved(_) | State::Ranges(_) => {}
        }
    }

    fn is_near(&mut self, page: u64) -> bool {
        match self {
            State::Constant(is_near) => *is_near,
            State::Interleaved(share) => {
                let whole = |page: u64| (u128::from(page) * u128::from(*share)) >> 32;
                whole(page + 1) > whole(page)
            }
            State::FirstTouch { near, far, pages } => {
                if near.contains(&page) {
                    return true;
                }
                let has_room = (near.len() as u64) < *pages && !far.contains(&page);
                if has_room {
                    near.insert(page)
                } else {
                    far.insert(page)
                };
                has_room
            }
            State::Tiered(_) | State::DramCache(_) => false,
            State::Ranges(far) => {
                let address = page << PAGE_SHIFT;
                !far.iter().any(|(first, end)| (*first..*end).contains(&address))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(placement: PagePlacement) -> impl FnMut(u64) -> bool {
        let mut placements = Placements::new(&[PagePlacement::AllFar, placement]).unwrap();
        move |page| match placements.near(page << PAGE_SHIFT, AccessKind::Read) {
            0 => false,
            2 => true,
            mask => panic!("mask {mask:#b}, where all pages of the first placement are far"),
        }
    }

    #[test]
    fn the_first_pages_stay_near() {
        let mut is_near = one(PagePlacement::FirstTouch { near_bytes: 2 << PAGE_SHIFT });
        let pages = [7, 3, 7, 1, 3, 1];
        assert_eq!(pages.map(&mut is_near), [true, true, true, false, true, false]);
    }

    #[test]
    fn a_page_that_is_given_back_leaves_room_to_the_next_new_one() {
        let mut placements =
            Placements::new(&[PagePlacement::FirstTouch { near_bytes: 1 << PAGE_SHIFT }]).unwrap();
        let near = |placements: &mut Placements, page: u64| {
            placements.near(page << PAGE_SHIFT, AccessKind::Read) == 1
        };
        assert!(near(&mut placements, 7) && !near(&mut placements, 8));
        placements.forget(7);
        assert!(!near(&mut placements, 8), "a page stays where it is");
        assert!(near(&mut placements, 9) && !near(&mut placements, 7));
        placements.forget(9);
        placements.forget(8);
        assert!(near(&mut placements, 8));
    }

    #[test]
    fn ranges_are_far_once_they_are_set() {
        let mut placements = Placements::new(&[PagePlacement::Ranges]).unwrap();
        assert_eq!(placements.near(0x5000, AccessKind::Read), 1);
        placements.set_far_ranges(0, &[(0x5000, 0x6000)]);
        assert_eq!(
            [0x4fff, 0x5000, 0x6000].map(|address| placements.near(address, AccessKind::Read)),
            [1, 0, 1]
        );
    }

    #[test]
    fn wrong_placements_are_refused() {
        assert!(Placements::new(&vec![PagePlacement::AllNear; PLACEMENTS + 1]).is_err());
        for near_share in [-0.1, 1.1, f64::NAN] {
            assert!(Placements::new(&[PagePlacement::Interleaved { near_share }]).is_err());
        }
        for (near_bytes, granule_bytes, ways) in
            [(1 << 20, 96, 1), (1 << 20, 32, 1), (64, 64, 2), (0, 64, 1), (1 << 40, 64, 4)]
        {
            assert!(
                Placements::new(&[PagePlacement::DramCache { near_bytes, granule_bytes, ways }]).is_err()
            );
        }
    }

    #[test]
    fn memory_that_moves_is_asked_each_time_beside_memory_that_stays() {
        let cache = PagePlacement::DramCache { near_bytes: 4096, granule_bytes: 64, ways: 1 };
        let mut placements =
            Placements::new(&[PagePlacement::AllNear, cache, PagePlacement::AllFar]).unwrap();
        let masks = [0, 0, 64, 0].map(|address| placements.near(address, AccessKind::Read));
        assert_eq!(masks, [0b01, 0b11, 0b01, 0b11]);
        assert_eq!(placements.near(128, AccessKind::Write), 0b01);
        let moved = placements.moved();
        assert_eq!((moved[0], moved[1].into_near_bytes), (MovedBytes::default(), 128));
    }

    #[test]
    fn a_sampled_page_comes_near_as_instructions_pass() {
        let tiered = PagePlacement::Tiered { near_bytes: 4 << PAGE_SHIFT, period: 1000 };
        let mut placements = Placements::new(&[tiered]).unwrap();
        let mut near = |page: u64, instructions: u64| {
            placements.advance(instructions);
            placements.near(page << PAGE_SHIFT, AccessKind::Read) == 1
        };
        assert!((0..8).all(|page| near(page, 0)));
        let seen = [10, 1000, 1001, 2000, 2001].map(|instructions| near(0, instructions));
        assert_eq!(seen, [false, false, false, false, true]);
        let moved = placements.moved()[0];
        assert_eq!((moved.hint_faults, moved.into_near_bytes), (2, 4096));
        placements.forget_counts();
        assert_eq!(placements.moved(), [MovedBytes::default()]);
        placements.advance(1000);
        let sampled = [1, 1].map(|page: u64| placements.near(page << PAGE_SHIFT, AccessKind::Read));
        assert_eq!((sampled, placements.moved()[0].hint_faults), ([0, 0], 1), "the instructions begin anew");
    }

    proptest! {
        #[test]
        fn a_share_of_each_run_is_near(near_share in 0.0f64..=1.0, first in 0u64..1 << 40, pages in 1u64..2000) {
            let is_near = one(PagePlacement::Interleaved { near_share });
            let near = (first..first + pages).map(is_near).filter(|is_near| *is_near).count();
            prop_assert!((near as f64 - near_share * pages as f64).abs() <= 1.01, "{near} of {pages}");
        }
    }
}
