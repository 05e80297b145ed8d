//! Buffers of a core that a request for a line occupies until it completes: fill buffers, prefetch buffers and page
//! walkers.

use super::time::LaneTime;

/// Pool of equal buffers, each of which becomes free at a known time.
///
/// A request takes the buffer that becomes free first. The model processes requests in program order, whereas a real
/// core sends each request when its address is known. Therefore, in the model, a request that begins late keeps its
/// buffer from all requests that follow in program order, even if these begin earlier. This makes the model too
/// pessimistic for independent misses that follow a chain of dependent misses. The benefit is that every time in the
/// model is a sum or a maximum of earlier times, so that no event ends earlier because another event ends later.
pub(super) struct TimedBuffers<T> {
    /// Times at which the buffers become free, sorted in ascending order separately for each lane.
    free: Vec<T>,
}

impl<T: LaneTime> TimedBuffers<T> {
    pub(super) fn new(count: usize) -> TimedBuffers<T> {
        TimedBuffers { free: vec![T::START; count] }
    }

    /// Returns when a request that could begin at `ready` obtains a buffer.
    #[inline(always)]
    pub(super) fn begin(&self, ready: T) -> T {
        self.free[0].later(ready)
    }

    /// Takes the buffer that becomes free first, and occupies it until `end`.
    #[inline]
    pub(super) fn take(&mut self, end: T) {
        let mut carried = end;
        for index in 1..self.free.len() {
            let next = self.free[index];
            self.free[index - 1] = next.earlier(carried);
            carried = next.later(carried);
        }
        let last = self.free.len() - 1;
        self.free[last] = carried;
    }

    pub(super) fn rebase(&mut self, base: T) {
        self.free.iter_mut().for_each(|free| *free = free.minus(base));
    }

    pub(super) fn reset(&mut self) {
        self.free.fill(T::START);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::time::LaneTimes;
    use proptest::prelude::*;

    proptest! {
        /// Compares the buffers with a sorted list per lane, in two lanes.
        #[test]
        fn the_buffer_that_is_free_first_is_taken(
            count in 1..6usize,
            requests in prop::collection::vec(([0..50u8, 0..50u8], [0..50u8, 0..50u8]), 0..40),
        ) {
            let mut buffers = TimedBuffers::<LaneTimes<2>>::new(count);
            let mut lists = [vec![0.0f32; count], vec![0.0f32; count]];
            for (ready, length) in requests {
                let begin = buffers.begin(LaneTimes(ready.map(f32::from)));
                buffers.take(begin.plus(LaneTimes(length.map(f32::from))));
                for lane in 0..2 {
                    let list = &mut lists[lane];
                    let expected = f32::from(ready[lane]).max(list[0]);
                    prop_assert_eq!(begin.0[lane], expected);
                    list[0] = expected + f32::from(length[lane]);
                    list.sort_by(f32::total_cmp);
                    let free: Vec<f32> = buffers.free.iter().map(|free| free.0[lane]).collect();
                    prop_assert_eq!(&free, list);
                }
            }
        }
    }
}
