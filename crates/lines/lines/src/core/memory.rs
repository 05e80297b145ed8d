//! Memory behind the caches, near and far: computes when a line arrives.

use super::parameters::{MemoryLane, MemoryParameters, NearPages};
use super::time::{LaneTime, LaneTimes};

/// Memory, as the core accesses it. Each line comes with a mask that has one bit for each placement in which its page
/// is near.
///
/// `dispatch` is the time at which the requesting instruction was dispatched, which never decreases from one request
/// to the next. It is later than `at` only if a wrong path has issued the request before.
pub(super) trait Memory<T: LaneTime> {
    /// Reads a line. Returns when its value is available.
    fn read(&mut self, at: T, dispatch: T, line: u64, near: u16) -> T;

    /// Writes a line. Returns when the memory has received it.
    fn write(&mut self, at: T, dispatch: T, line: u64, near: u16) -> T;

    /// Writes a modified line back. No instruction waits for it.
    fn write_back(&mut self, at: T, dispatch: T, line: u64, near: u16);

    /// Loads an entry of a page table, which is always near. Returns when its value is available.
    fn load_entry(&mut self, at: T) -> T;

    /// Shifts the time base to `base`.
    fn rebase(&mut self, base: T);

    /// Prepares for a new window.
    fn reset(&mut self);
}

/// Channel to a memory, which transfers one line at a time.
///
/// A line occupies the channel for one interval, which starts at the dispatch of the requesting instruction or when
/// the channel becomes free, whichever is later. The interval does not start at the beginning of the request itself.
/// Otherwise a line whose address depends on a miss would delay all lines that follow in program order, although a
/// core requests those lines earlier.
///
/// Departures: lines that all wait for one event find the channel free simultaneously, as many as fit between their
/// dispatch and that event. The same holds for lines that a wrong path requests.
pub(super) struct Channel<T> {
    interval: f32,
    free: T,
}

impl<T: LaneTime> Channel<T> {
    /// Creates a channel that each line occupies for `interval` cycles; 0 means no limit.
    pub(super) fn new(interval: f32) -> Channel<T> {
        Channel { interval, free: T::START }
    }

    /// Sends a line as soon as the channel is free. Returns when its transfer begins.
    pub(super) fn send(&mut self, at: T, dispatch: T) -> T {
        self.send_for(self.interval, at, dispatch)
    }

    /// Sends a line that occupies the channel for `interval` cycles. Returns when its transfer begins.
    pub(super) fn send_for(&mut self, interval: f32, at: T, dispatch: T) -> T {
        if interval == 0.0 {
            return at;
        }
        let begin = at.later_from(self.free, dispatch);
        self.free = self.free.later(dispatch).after(interval);
        begin
    }

    pub(super) fn rebase(&mut self, base: T) {
        self.free = self.free.minus(base);
    }

    pub(super) fn reset(&mut self) {
        self.free = T::START;
    }
}

/// One memory, near or far, of one lane. Reads and writes each have their own channel, and in addition share a third
/// one.
pub(super) struct Device<T> {
    latency: f32,
    reads: Channel<T>,
    writes: Channel<T>,
    both: Channel<T>,
}

impl<T: LaneTime> Device<T> {
    pub(super) fn new(parameters: &MemoryParameters) -> Device<T> {
        Device {
            latency: parameters.latency,
            reads: Channel::new(parameters.read_interval),
            writes: Channel::new(parameters.write_interval),
            both: Channel::new(parameters.interval),
        }
    }

    /// Reads a line. Returns when its value is available.
    #[inline]
    pub(super) fn read(&mut self, at: T, dispatch: T) -> T {
        let begin = self.reads.send(at, dispatch).later(self.both.send(at, dispatch));
        begin.after(self.latency)
    }

    /// Writes a line. Returns when the memory has received it.
    #[inline]
    pub(super) fn write(&mut self, at: T, dispatch: T) -> T {
        let begin = self.writes.send(at, dispatch).later(self.both.send(at, dispatch));
        begin.after(self.latency)
    }

    /// Loads an entry of a page table. Returns when its value is available.
    pub(super) fn load_entry(&self, at: T) -> T {
        at.after(self.latency)
    }

    pub(super) fn rebase(&mut self, base: T) {
        for channel in [&mut self.reads, &mut self.writes, &mut self.both] {
            channel.rebase(base);
        }
    }

    pub(super) fn reset(&mut self) {
        for channel in [&mut self.reads, &mut self.writes, &mut self.both] {
            channel.reset();
        }
    }
}

/// Memory of `N` lanes, each with its own placement and latencies.
pub(super) struct LaneMemory<const N: usize> {
    lanes: [MemoryLane; N],
    /// Near and far memory of each lane.
    devices: [[Device<LaneTimes<1>>; 2]; N],
    /// Latencies of near memory.
    near: LaneTimes<N>,
}

impl<const N: usize> LaneMemory<N> {
    /// Creates the memory of `N` lanes. If fewer lanes are given, the last one is repeated.
    ///
    /// # Panics
    /// If no lane is given.
    pub(super) fn new(lanes: &[MemoryLane]) -> LaneMemory<N> {
        let lanes: [MemoryLane; N] = std::array::from_fn(|lane| lanes[lane.min(lanes.len() - 1)]);
        let near = LaneTimes(lanes.map(|lane| lane.near.latency));
        let devices = lanes.map(|lane| [Device::new(&lane.near), Device::new(&lane.far)]);
        LaneMemory { lanes, devices, near }
    }

    /// Sends a request to the near or far memory of each lane, according to the placement of the page in that lane.
    #[inline]
    fn each(
        &mut self,
        at: LaneTimes<N>,
        dispatch: LaneTimes<N>,
        near: u16,
        ask: impl Fn(&mut Device<LaneTimes<1>>, LaneTimes<1>, LaneTimes<1>) -> LaneTimes<1>,
    ) -> LaneTimes<N> {
        let mut ends = at;
        for (index, (lane, devices)) in self.lanes.iter().zip(&mut self.devices).enumerate() {
            let device = &mut devices[usize::from(lane.is_far(near))];
            ends.0[index] = ask(device, LaneTimes([at.0[index]]), LaneTimes([dispatch.0[index]])).0[0];
        }
        ends
    }
}

impl<const N: usize> Memory<LaneTimes<N>> for LaneMemory<N> {
    fn read(&mut self, at: LaneTimes<N>, dispatch: LaneTimes<N>, _: u64, near: u16) -> LaneTimes<N> {
        self.each(at, dispatch, near, Device::read)
    }

    fn write(&mut self, at: LaneTimes<N>, dispatch: LaneTimes<N>, _: u64, near: u16) -> LaneTimes<N> {
        self.each(at, dispatch, near, Device::write)
    }

    fn write_back(&mut self, at: LaneTimes<N>, dispatch: LaneTimes<N>, _: u64, near: u16) {
        self.each(at, dispatch, near, Device::write);
    }

    fn load_entry(&mut self, at: LaneTimes<N>) -> LaneTimes<N> {
        at.plus(self.near)
    }

    fn rebase(&mut self, base: LaneTimes<N>) {
        for (devices, base) in self.devices.iter_mut().zip(base.0) {
            devices.iter_mut().for_each(|device| device.rebase(LaneTimes([base])));
        }
    }

    fn reset(&mut self) {
        self.devices.iter_mut().flatten().for_each(Device::reset);
    }
}

impl MemoryLane {
    /// Returns whether a page is far in this lane, given the mask of the placements in which it is near.
    #[inline]
    pub(super) fn is_far(&self, near: u16) -> bool {
        match self.pages {
            NearPages::AllNear => false,
            NearPages::AllFar => true,
            NearPages::Placement(number) => near >> number & 1 == 0,
        }
    }
}
