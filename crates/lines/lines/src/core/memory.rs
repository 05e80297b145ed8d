//! Near and remote memory behind the caches of the core model. It computes when a requested line arrives.

use super::parameters::{MemoryLane, MemoryParameters, NearPages};
use super::time::{LaneTime, LaneTimes};

/// Memory to which the core sends the requests that its caches cannot serve. Each request for a line contains the mask
/// `near`, with one bit for each placement of pages; the bit is set if the line's page is near in this placement.
///
/// `at` is the time of a request, and `dispatch` is the time at which the requesting instruction was dispatched.
/// `dispatch` never decreases from one request to the next. It is later than `at` only if a wrong path issued the
/// request before this dispatch.
pub(super) trait Memory<T: LaneTime> {
    /// Reads a line. Returns the time at which its value is available.
    fn read(&mut self, at: T, dispatch: T, line: u64, near: u16) -> T;

    /// Writes a line. Returns the time at which the memory has received it.
    fn write(&mut self, at: T, dispatch: T, line: u64, near: u16) -> T;

    /// Writes a modified line back. No instruction waits for it.
    fn write_back(&mut self, at: T, dispatch: T, line: u64, near: u16);

    /// Loads an entry of a page table, which is always in local memory. Returns the time at which the entry is
    /// available.
    fn load_entry(&mut self, at: T) -> T;

    /// Makes all stored times relative to `base`, the new time base.
    fn rebase(&mut self, base: T);

    /// Discards all state of the previous window.
    fn reset(&mut self);
}

/// Channel to a cache or memory. It transfers one line at a time.
///
/// A line occupies the channel for one interval. This interval starts when the requesting instruction is dispatched or
/// when the channel becomes free, whichever is later. It does not start at the beginning of the request itself.
/// Otherwise a line whose address depends on a cache miss would delay all lines that follow in program order, although
/// a real core requests those lines earlier.
///
/// Departures: if several lines wait for the same event, the model can transfer them all at the time of this event, up
/// to the number of lines that the channel can transfer between their dispatch and the event. The same holds for lines
/// that a wrong path requests.
pub(super) struct Channel<T> {
    interval: f32,
    free: T,
}

impl<T: LaneTime> Channel<T> {
    /// Creates a channel that each line occupies for `interval` cycles. If `interval` is 0, the channel has unlimited
    /// bandwidth.
    pub(super) fn new(interval: f32) -> Channel<T> {
        Channel { interval, free: T::START }
    }

    /// Sends a line as soon as the channel is free. Returns the time at which the line's transfer begins.
    pub(super) fn send(&mut self, at: T, dispatch: T) -> T {
        self.send_for(self.interval, at, dispatch)
    }

    /// Sends a line that occupies the channel for `interval` cycles. Returns the time at which the line's transfer
    /// begins.
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

/// The local memory or the remote memory of one lane. Reads have one channel and writes another, and all reads and writes
/// also occupy a third, shared channel.
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

    /// Reads a line. Returns the time at which its value is available.
    #[inline]
    pub(super) fn read(&mut self, at: T, dispatch: T) -> T {
        let begin = self.reads.send(at, dispatch).later(self.both.send(at, dispatch));
        begin.after(self.latency)
    }

    /// Writes a line. Returns the time at which the memory has received it.
    #[inline]
    pub(super) fn write(&mut self, at: T, dispatch: T) -> T {
        let begin = self.writes.send(at, dispatch).later(self.both.send(at, dispatch));
        begin.after(self.latency)
    }

    /// Loads an entry of a page table. Returns the time at which the entry is available.
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

/// Memory of `N` lanes. Each lane has a separate placement of pages and separate latencies.
pub(super) struct LaneMemory<const N: usize> {
    lanes: [MemoryLane; N],
    /// Local memory (index 0) and remote memory (index 1) of each lane.
    devices: [[Device<LaneTimes<1>>; 2]; N],
    /// Latency of the local memory of each lane.
    near: LaneTimes<N>,
}

impl<const N: usize> LaneMemory<N> {
    /// Creates the memory of `N` lanes (memory configurations). If `lanes` has fewer than `N` elements, the remaining
    /// lanes are copies of the last element.
    ///
    /// # Panics
    /// If `lanes` is empty.
    pub(super) fn new(lanes: &[MemoryLane]) -> LaneMemory<N> {
        let lanes: [MemoryLane; N] = std::array::from_fn(|lane| lanes[lane.min(lanes.len() - 1)]);
        let near = LaneTimes(lanes.map(|lane| lane.near.latency));
        let devices = lanes.map(|lane| [Device::new(&lane.near), Device::new(&lane.far)]);
        LaneMemory { lanes, devices, near }
    }

    /// Sends a request to the memory of each lane (memory configuration). In a given lane, the request goes to near or
    /// remote memory, according to the placement of the page in that lane.
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
    /// Returns whether a page is in remote memory in this lane. `near` has one bit for each placement of pages, which is
    /// set if the page is near in that placement.
    #[inline]
    pub(super) fn is_far(&self, near: u16) -> bool {
        match self.pages {
            NearPages::AllNear => false,
            NearPages::AllFar => true,
            NearPages::Placement(number) => near >> number & 1 == 0,
        }
    }
}
