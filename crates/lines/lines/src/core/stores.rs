//! Recent stores, from which the store queue forwards bytes to loads.

use super::time::LaneTime;

/// Number of entries in the table of places, a power of two. A place is an aligned group of 8 bytes in memory.
const PLACES: usize = 1024;
/// Number of bytes of a place, which is the granularity at which stores are looked up.
const PLACE: u64 = 8;

/// Store that the program executed.
#[derive(Clone, Copy)]
struct Store<T> {
    address: u64,
    bytes: u64,
    /// Time at which the address and the data of the store are known.
    data: T,
    /// Time at which the store is written to the first-level cache.
    commit: T,
}

/// Data that a load receives from the store queue.
pub(super) struct ForwardedData<T> {
    /// Time at which the data are available.
    pub(super) time: T,
    /// Whether a single store wrote all bytes of the load.
    pub(super) is_whole: bool,
}

/// Most recent stores in program order. Their number is at most the size of the store queue.
pub(super) struct Stores<T> {
    stores: Vec<Store<T>>,
    length: u64,
    /// Number of stores since the beginning of the window.
    count: u64,
    /// Sequence number plus 1 of the last store to each place (aligned group of 8 bytes in memory). The index is a hash
    /// of the place's address, and 0 marks an empty entry.
    last: Vec<u64>,
    forward_latency: f32,
    load_latency: f32,
}

impl<T: LaneTime> Stores<T> {
    pub(super) fn new(length: usize, forward_latency: f32, load_latency: f32) -> Stores<T> {
        let none = Store { address: 0, bytes: 0, data: T::START, commit: T::START };
        let stores = vec![none; length.next_power_of_two()];
        Stores {
            stores,
            length: length as u64,
            count: 0,
            last: vec![0; PLACES],
            forward_latency,
            load_latency,
        }
    }

    /// Records a store of 1 to 64 bytes.
    pub(super) fn push(&mut self, address: u64, bytes: u8, data: T, commit: T) {
        let bytes = u64::from(bytes);
        let index = self.index(self.count);
        self.stores[index] = Store { address, bytes, data, commit };
        self.count += 1;
        for place in places(address, bytes) {
            self.last[place] = self.count;
        }
    }

    /// Returns the index in `stores` of the store with the given sequence number.
    #[inline(always)]
    fn index(&self, number: u64) -> usize {
        number as usize & (self.stores.len() - 1)
    }

    /// Returns when the bytes that a load reads are available from the store queue, or `None` if no recent store wrote
    /// any of these bytes.
    ///
    /// If one store wrote all bytes of the load, the store queue forwards them. If a store wrote only some of the
    /// bytes, the load waits until that store has been written to the first-level cache (Agner Fog,
    /// microarchitecture.pdf, "Store forwarding stalls").
    #[inline(always)]
    pub(super) fn forwarded(&self, address: u64, bytes: u8) -> Option<ForwardedData<T>> {
        let bytes = u64::from(bytes);
        let mut known: Option<ForwardedData<T>> = None;
        let mut before = 0;
        for place in places(address, bytes) {
            let number = self.last[place];
            if number == 0 || number == before || number + self.length <= self.count {
                continue;
            }
            before = number;
            let store = &self.stores[self.index(number - 1)];
            let (start, end) = (address, address.wrapping_add(bytes));
            let store_end = store.address.wrapping_add(store.bytes);
            if store.address >= end || store_end <= start {
                continue;
            }
            let is_whole = store.address <= start && end <= store_end;
            let time = if is_whole {
                store.data.after(self.forward_latency)
            } else {
                store.commit.after(self.load_latency)
            };
            known = Some(match known {
                None => ForwardedData { time, is_whole },
                Some(known) => ForwardedData { time: known.time.later(time), is_whole: false },
            });
        }
        known
    }

    pub(super) fn rebase(&mut self, base: T) {
        for store in &mut self.stores {
            (store.data, store.commit) = (store.data.minus(base), store.commit.minus(base));
        }
    }

    pub(super) fn reset(&mut self) {
        self.last.fill(0);
        self.count = 0;
    }
}

/// Returns the table entries of the places that a range of bytes touches.
#[inline(always)]
fn places(address: u64, bytes: u64) -> impl Iterator<Item = usize> {
    let last = address.wrapping_add(bytes - 1) / PLACE;
    (address / PLACE..=last).map(|place| (place ^ place >> 10) as usize % PLACES)
}
