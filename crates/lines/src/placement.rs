//! Placements of pages in near and far memory, decided at each miss.

use crate::processor::ProcessorError;
use std::collections::HashSet;

/// Bytes of a page, as a shift.
const PAGE_SHIFT: u32 = 12;
/// Largest number of placements: bits of a mask.
pub const PLACEMENTS: usize = 16;

/// Placement of a program's pages of 4 KiB.
#[derive(Clone, Debug, PartialEq)]
pub enum Placement {
    /// Every page near.
    AllNear,
    /// Every page far.
    AllFar,
    /// Pages near in turns, so that this share of any run of pages is: 0 to 1.
    Interleaved {
        /// Share that is near.
        near_share: f64,
    },
    /// Pages near in the order of their first misses, until this many bytes are.
    FirstTouch {
        /// Size of near memory, in bytes.
        near_bytes: u64,
    },
    /// Pages far in ranges that [`Hierarchy::set_far_ranges`](crate::hierarchy::Hierarchy::set_far_ranges) sets, at first
    /// none.
    Ranges,
}

/// Placements of one run, each with what it remembers.
#[derive(Clone, Debug)]
pub(crate) struct Placements {
    all: Vec<State>,
    /// Last page and its mask, while no placement changes a page that it has decided.
    last: Option<(u64, u16)>,
}

#[derive(Clone, Debug)]
enum State {
    Constant(bool),
    /// Page `n` is near if `n * share` passes a whole number, in units of 2^-32.
    Interleaved(u64),
    /// Pages that are near, and how many may be. They never become fewer, so a page that found no room finds none later.
    FirstTouch {
        near: HashSet<u64>,
        pages: u64,
    },
    Ranges(Vec<(u64, u64)>),
}

impl Placements {
    /// Begins placements, of which no page is decided.
    ///
    /// # Errors
    /// If they are more than a mask has bits, or a share is none.
    pub(crate) fn new(placements: &[Placement]) -> Result<Placements, ProcessorError> {
        if placements.len() > PLACEMENTS {
            return Err(ProcessorError::Placements(placements.len()));
        }
        let all = placements.iter().map(State::new).collect::<Result<_, _>>()?;
        Ok(Placements { all, last: None })
    }

    pub(crate) fn set_far_ranges(&mut self, placement: usize, ranges: &[(u64, u64)]) {
        if let Some(State::Ranges(far)) = self.all.get_mut(placement) {
            *far = ranges.to_vec();
            self.last = None;
        }
    }

    /// Returns the placements that have the page of an address near, a bit each.
    pub(crate) fn near(&mut self, address: u64) -> u16 {
        let page = address >> PAGE_SHIFT;
        if let Some((last, mask)) = self.last
            && last == page
        {
            return mask;
        }
        let mask = self.all.iter_mut().enumerate().fold(0, |mask, (bit, state)| {
            let is_near = state.is_near(page);
            mask | u16::from(is_near) << bit
        });
        self.last = Some((page, mask));
        mask
    }
}

impl State {
    fn new(placement: &Placement) -> Result<State, ProcessorError> {
        Ok(match *placement {
            Placement::AllNear => State::Constant(true),
            Placement::AllFar => State::Constant(false),
            Placement::Interleaved { near_share } if (0.0..=1.0).contains(&near_share) => {
                State::Interleaved((near_share * f64::from(1u32 << 31) * 2.0).round() as u64)
            }
            Placement::Interleaved { near_share } => {
                return Err(ProcessorError::Share(near_share.to_string()));
            }
            Placement::FirstTouch { near_bytes } => {
                State::FirstTouch { near: HashSet::new(), pages: near_bytes >> PAGE_SHIFT }
            }
            Placement::Ranges => State::Ranges(Vec::new()),
        })
    }

    fn is_near(&mut self, page: u64) -> bool {
        match self {
            State::Constant(is_near) => *is_near,
            State::Interleaved(share) => {
                let whole = |page: u64| (u128::from(page) * u128::from(*share)) >> 32;
                whole(page + 1) > whole(page)
            }
            State::FirstTouch { near, pages } => {
                let has_room = (near.len() as u64) < *pages;
                near.contains(&page) || has_room && near.insert(page)
            }
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

    fn one(placement: Placement) -> impl FnMut(u64) -> bool {
        let mut placements = Placements::new(&[Placement::AllFar, placement]).unwrap();
        move |page| match placements.near(page << PAGE_SHIFT) {
            0 => false,
            2 => true,
            mask => panic!("mask {mask:#b}, where all pages of the first placement are far"),
        }
    }

    #[test]
    fn the_first_pages_stay_near() {
        let mut is_near = one(Placement::FirstTouch { near_bytes: 2 << PAGE_SHIFT });
        let pages = [7, 3, 7, 1, 3, 1];
        assert_eq!(pages.map(&mut is_near), [true, true, true, false, true, false]);
    }

    #[test]
    fn ranges_are_far_once_they_are_set() {
        let mut placements = Placements::new(&[Placement::Ranges]).unwrap();
        assert_eq!(placements.near(0x5000), 1);
        placements.set_far_ranges(0, &[(0x5000, 0x6000)]);
        assert_eq!([0x4fff, 0x5000, 0x6000].map(|address| placements.near(address)), [1, 0, 1]);
    }

    #[test]
    fn wrong_placements_are_refused() {
        assert!(Placements::new(&vec![Placement::AllNear; PLACEMENTS + 1]).is_err());
        for near_share in [-0.1, 1.1, f64::NAN] {
            assert!(Placements::new(&[Placement::Interleaved { near_share }]).is_err());
        }
    }

    proptest! {
        #[test]
        fn a_share_of_each_run_is_near(near_share in 0.0f64..=1.0, first in 0u64..1 << 40, pages in 1u64..2000) {
            let is_near = one(Placement::Interleaved { near_share });
            let near = (first..first + pages).map(is_near).filter(|is_near| *is_near).count();
            prop_assert!((near as f64 - near_share * pages as f64).abs() <= 1.01, "{near} of {pages}");
        }
    }
}
