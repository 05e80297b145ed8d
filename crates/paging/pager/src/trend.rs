//! Read-ahead: predicts the pages that a thread will need next from its earlier accesses. The rules are Leap's (Al Maruf and Chowdhury,
//! "Effectively Prefetching Remote Memory with Leap", USENIX ATC 2020, algorithms 1 and 2).
//!
//! The trend is the step (distance in pages between two accesses) that makes up the majority of the latest steps. The pager fetches pages
//! along the trend ahead of their use; the more of the previous pages were used, the more it fetches. Leap sees each use in the page cache.
//! Here, however, a page that was fetched ahead is mapped at once, so that its use stays unseen. Therefore the first page of each batch
//! (the *marker*) is left out of the program until a thread touches it. That touch triggers the fetch of the next batch while the thread
//! uses the rest of the current one. Departure: for an access off the trend, the pager fetches no page ahead, whereas Leap fetches a few
//! neighbours.

use crate::sys::PAGE;

/// Number of steps that are remembered.
const HISTORY: usize = 32;
/// Number of latest steps among which a majority is searched first. The search then doubles the number until it covers all steps.
const LEAST_WINDOW: usize = 4;
/// Page numbers of user memory are below this (47 bits of address).
const MOST_PAGES: isize = 1 << 35;

/// Pages to fetch ahead: `pages` of them, from `first` on, `step` pages apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FetchAhead {
    /// Page number of the first page.
    first: isize,
    step: isize,
    pages: usize,
}

/// Trend of one thread's accesses to remote pages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trend {
    /// Ring of the latest steps, in pages.
    steps: [isize; HISTORY],
    /// Number of steps that were ever noted.
    noted: usize,
    /// Page number of the latest access.
    last: Option<isize>,
    /// Number of pages in the latest plan.
    planned: usize,
    /// Number of pages fetched ahead that were used since the latest plan.
    used: usize,
    /// Page number of the marker, and the step of its batch.
    marker: Option<(isize, isize)>,
}

impl FetchAhead {
    /// Returns the addresses of the pages to fetch ahead.
    pub(crate) fn addresses(self) -> impl Iterator<Item = usize> {
        let page = move |n: usize| self.first.checked_add(self.step.checked_mul(n as isize)?);
        (0..self.pages)
            .filter_map(page)
            .filter(|page| (1..MOST_PAGES).contains(page))
            .map(|page| page as usize * PAGE)
    }
}

impl Trend {
    /// Notes an access to a page that was not fetched ahead. Returns the pages to fetch ahead now, at most `most`.
    pub(crate) fn missed(&mut self, address: usize, most: usize) -> FetchAhead {
        let page = (address / PAGE) as isize;
        let step = self.last.map(|last| page - last);
        self.last = Some(page);
        step.into_iter().for_each(|step| self.note(step, 1));
        let Some(trend) = self.majority().filter(|trend| step == Some(*trend)) else {
            self.planned /= 2;
            return FetchAhead::default();
        };
        self.plan(page, trend, most)
    }

    /// Returns whether this page is the marker.
    pub(crate) fn is_marker(&self, address: usize) -> bool {
        self.marker.is_some_and(|(page, _)| page == (address / PAGE) as isize)
    }

    /// Makes this page the marker; it is the first page of the plan that is really fetched.
    pub(crate) fn mark(&mut self, address: usize, plan: FetchAhead) {
        self.marker = Some(((address / PAGE) as isize, plan.step));
    }

    /// Notes the touch of the marker. Returns the pages to fetch ahead next.
    pub(crate) fn reached(&mut self, most: usize) -> FetchAhead {
        let Some((page, step)) = self.marker.take() else { return FetchAhead::default() };
        self.used += self.planned;
        self.note(step, self.planned.max(1));
        // The next batch begins after the last page of the batch whose marker was touched.
        let last = page + step * (self.planned.max(1) as isize - 1);
        self.last = Some(last);
        self.plan(last, step, most)
    }

    /// Leap, algorithm 2: computes how many pages to fetch along the trend from how many were used.
    fn plan(&mut self, page: isize, step: isize, most: usize) -> FetchAhead {
        let wanted = if self.used == 0 { 1 } else { (self.used + 1).next_power_of_two() };
        let pages = wanted.max(self.planned / 2).min(most);
        (self.planned, self.used) = (pages, 0);
        FetchAhead { first: page + step, step, pages }
    }

    fn note(&mut self, step: isize, times: usize) {
        for _ in 0..times.min(HISTORY) {
            self.steps[self.noted % HISTORY] = step;
            self.noted += 1;
        }
    }

    /// Leap, algorithm 1: returns the step that more than half of the latest steps are equal to, for the smallest window of steps that has
    /// such a majority.
    fn majority(&self) -> Option<isize> {
        let known = self.noted.min(HISTORY);
        let latest = |n: usize| self.steps[(self.noted - 1 - n) % HISTORY];
        let mut window = LEAST_WINDOW;
        while window <= known {
            // Boyer and Moore's majority vote, and the check that it needs.
            let (mut candidate, mut votes) = (0, 0);
            for n in 0..window {
                match votes {
                    0 => (candidate, votes) = (latest(n), 1),
                    _ if latest(n) == candidate => votes += 1,
                    _ => votes -= 1,
                }
            }
            let is_majority = (0..window).filter(|n| latest(*n) == candidate).count() > window / 2;
            if is_majority && candidate != 0 {
                return Some(candidate);
            }
            window *= 2;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: usize = 8;

    /// Touches pages in this order and assumes that all pages of a plan are fetched. Returns how many pages were not fetched ahead, and how
    /// many were.
    fn touched(pages: impl Iterator<Item = isize>) -> (usize, usize) {
        let (mut trend, mut ahead, mut waits, mut fetched) = (Trend::default(), Vec::new(), 0, 0);
        for page in pages {
            let address = page as usize * PAGE;
            let plan = match (trend.is_marker(address), ahead.contains(&address)) {
                (true, _) => trend.reached(MOST),
                (false, true) => continue,
                (false, false) => {
                    waits += 1;
                    trend.missed(address, MOST)
                }
            };
            let planned: Vec<_> = plan.addresses().collect();
            planned.first().into_iter().for_each(|first| trend.mark(*first, plan));
            fetched += planned.len();
            ahead.extend(planned);
        }
        (waits, fetched)
    }

    #[test]
    fn a_stream_waits_only_until_it_is_recognized() {
        for step in [1, 3, -2, 512] {
            let (waits, fetched) = touched((0..1000).map(|n| 1_000_000 + n * step));
            assert!(waits < 12, "step {step}: {waits} waits");
            assert!((980..1030).contains(&fetched), "step {step}: {fetched} fetched ahead");
        }
    }

    #[test]
    fn random_accesses_fetch_nothing_ahead() {
        let scattered = (0..1000u64).map(|n| (unrack_basis::mix(n) % 1_000_000) as isize + 1);
        assert!(touched(scattered).1 < 20);
    }

    #[test]
    fn a_stream_is_seen_although_every_tenth_access_is_another() {
        let mixed = (0..3000).map(|n| match n % 10 {
            0 => 500_000 + n * 7919 % 10_007,
            _ => 1_000_000 + n,
        });
        let (waits, fetched) = touched(mixed);
        assert!(waits < 1000, "300 are elsewhere, and {} are of the stream", waits - 300);
        assert!(fetched < 3500, "{fetched}");
    }

    #[test]
    fn the_batch_grows_with_use_and_shrinks_by_half() {
        let mut trend = Trend::default();
        let sizes: Vec<_> = (0..8).map(|n| trend.missed((100 + n) * PAGE, MOST).pages).collect();
        assert_eq!(sizes, [0, 0, 0, 0, 1, 1, 1, 1], "four steps are a majority; none was of use yet");
        let mut plan = trend.missed(108 * PAGE, MOST);
        let mut grown = Vec::new();
        for _ in 0..4 {
            trend.mark(plan.addresses().next().unwrap(), plan);
            plan = trend.reached(MOST);
            grown.push(plan.pages);
        }
        assert_eq!(grown, [2, 4, 8, 8]);
        assert_eq!(trend.missed(PAGE, MOST).pages, 0, "it is off the trend");
        assert_eq!(trend.missed(2 * PAGE, MOST).pages, 2);
    }

    proptest! {
        #[test]
        fn no_plan_is_larger_than_allowed_or_leaves_the_address_space(
            pages in prop::collection::vec(0usize..1 << 35, 1..200),
            most in 0usize..64,
        ) {
            let mut trend = Trend::default();
            for page in pages {
                let plan = if trend.is_marker(page * PAGE) { trend.reached(most) } else { trend.missed(page * PAGE, most) };
                let ahead: Vec<_> = plan.addresses().collect();
                prop_assert!(ahead.len() <= most);
                ahead.first().into_iter().for_each(|first| trend.mark(*first, plan));
            }
        }
    }
}
