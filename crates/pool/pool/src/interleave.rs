//! Interleave sets: one address space over several memory devices (DRack §2.4, §4.2).
//!
//! The bytes of a set are spread over its devices in turn, one *granule* at a time. Byte `b` of the set is in granule
//! `g = b / granularity`, which is granule `g / devices` of device `g % devices`. CXL has granularities of 256 B to 16
//! KiB.
//!
//! If the platform interleaves (HDM decoders), programs see one device, and this module maps it as a whole. Otherwise
//! [`MappedSpace`](crate::space::MappedSpace) maps each granule separately. This requires granules of whole pages, and limits their
//! number, because the kernel allows a process only about 65,000 mappings.

use crate::{PAGE, SECTION};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// Granularities of CXL, in bytes: the powers of two in this range.
pub const GRANULARITIES: std::ops::RangeInclusive<u64> = 256..=16 * 1024;
/// Maximum number of granules that are mapped one by one.
const MOST_MAPPED: u64 = 32 * 1024;

/// Mapping of addresses to devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interleave {
    /// Number of devices, at least one.
    pub devices: u32,
    /// Bytes on one device before the address space continues on the next device.
    pub granularity: NonZeroU64,
}

/// Reason why devices cannot be interleaved in this way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("an interleave granularity of {0} bytes: give a power of two of 256 B to 16 KiB")]
    Granularity(u64),
    #[error(
        "granules of {0} bytes are less than a page, so only the platform can interleave them: let it, and give the \
         resulting device, or give 4KiB to 16KiB"
    )]
    BelowPage(u64),
    #[error(
        "{0} granules are more than a process can map one by one ({MOST_MAPPED}): take larger granules, less \
             memory, or have the platform interleave"
    )]
    TooMany(u64),
}

impl Interleave {
    /// Makes a set of `devices` devices with granules of `granularity` bytes.
    ///
    /// # Errors
    /// If CXL does not have this granularity.
    pub fn new(devices: u32, granularity: u64) -> Result<Interleave, Unfit> {
        assert!(devices >= 1);
        match NonZeroU64::new(granularity) {
            Some(nonzero) if granularity.is_power_of_two() && GRANULARITIES.contains(&granularity) => {
                Ok(Interleave { devices, granularity: nonzero })
            }
            _ => Err(Unfit::Granularity(granularity)),
        }
    }

    /// Returns the device of a byte of the set, and the byte's offset in that device.
    pub fn locate(self, offset: u64) -> (u32, u64) {
        let (granule, inside) = (offset / self.granularity, offset % self.granularity);
        let devices = self.devices as u64;
        ((granule % devices) as u32, granule / devices * self.granularity.get() + inside)
    }

    /// Returns the offset in the set of the byte at a given offset of a device.
    pub fn offset_of(self, device: u32, at: u64) -> u64 {
        let (granule, inside) = (at / self.granularity, at % self.granularity);
        (granule * self.devices as u64 + device as u64) * self.granularity.get() + inside
    }

    /// Returns the number of bytes that the first `bytes` bytes of the set occupy on the device where they occupy most.
    pub fn device_bytes(self, bytes: u64) -> u64 {
        bytes.div_ceil(self.granularity.get()).div_ceil(u64::from(self.devices)) * self.granularity.get()
    }

    /// Returns the number of whole sections of a set whose devices have this size.
    pub fn sections(self, device_bytes: u64) -> u64 {
        let granules = device_bytes / self.granularity;
        granules * self.granularity.get() * self.devices as u64 / SECTION
    }

    /// Returns the parts to map for the first `bytes` bytes of the set. Each part has its offset in the set, its
    /// device, its offset in the device, and its size in bytes.
    ///
    /// # Errors
    /// If the granules cannot be mapped one by one.
    pub fn parts(self, bytes: u64) -> Result<impl Iterator<Item = (u64, u32, u64, u64)>, Unfit> {
        let granularity = self.granularity.get();
        let step = match self.devices {
            1 => bytes,
            _ if granularity < PAGE => return Err(Unfit::BelowPage(granularity)),
            _ if bytes / granularity > MOST_MAPPED => return Err(Unfit::TooMany(bytes / granularity)),
            _ => granularity,
        };
        Ok((0..bytes).step_by(step.max(1) as usize).map(move |offset| {
            let (device, at) = self.locate(offset);
            (offset, device, at, step)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set() -> impl Strategy<Value = Interleave> {
        (1u32..9, 8u32..15).prop_map(|(devices, power)| Interleave::new(devices, 1 << power).unwrap())
    }

    proptest! {
        /// Checks that every byte of the set has exactly one place on a device, and every place exactly one byte.
        #[test]
        fn places_and_bytes_are_one_to_one(set in set(), offset in 0u64..1 << 40, at in 0u64..1 << 40, which in 0u32..9) {
            let (device, place) = set.locate(offset);
            prop_assert!(device < set.devices);
            prop_assert_eq!(set.offset_of(device, place), offset);
            let device = which % set.devices;
            prop_assert_eq!(set.locate(set.offset_of(device, at)), (device, at));
        }

        /// Checks that every device has the same share of any sequence of whole rounds over the devices.
        #[test]
        fn devices_share_equally(set in set(), first in 0u64..1000, turns in 1u64..5) {
            let granularity = set.granularity.get();
            let mut shares = vec![0u64; set.devices as usize];
            for granule in first..first + turns * set.devices as u64 {
                shares[set.locate(granule * granularity).0 as usize] += granularity;
            }
            prop_assert!(shares.iter().all(|share| *share == turns * granularity));
        }

        /// Checks that the number of bytes that a device needs is exactly the number that the set reaches.
        #[test]
        fn device_bytes_are_enough_and_no_more(set in set(), bytes in 1u64..1 << 24) {
            let granules = (0..bytes).step_by(set.granularity.get() as usize);
            let reached = granules.map(|offset| set.locate(offset).1 + set.granularity.get()).max();
            prop_assert_eq!(reached, Some(set.device_bytes(bytes)));
        }

        #[test]
        fn parts_cover_the_set_once(devices in 1u32..5, power in 12u32..15, sections in 1u64..4) {
            let set = Interleave::new(devices, 1 << power).unwrap();
            let mut next = 0;
            for (offset, device, at, bytes) in set.parts(sections * SECTION).unwrap() {
                prop_assert_eq!(offset, next);
                prop_assert_eq!(set.locate(offset), (device, at));
                next = offset + bytes;
            }
            prop_assert_eq!(next, sections * SECTION);
        }
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        assert_eq!(Interleave::new(2, 300), Err(Unfit::Granularity(300)));
        assert_eq!(Interleave::new(2, 128), Err(Unfit::Granularity(128)));
        assert_eq!(Interleave::new(2, 32768), Err(Unfit::Granularity(32768)));
        let fine = Interleave::new(2, 256).unwrap();
        assert_eq!(fine.parts(SECTION).err(), Some(Unfit::BelowPage(256)));
        assert!(Interleave::new(1, 256).unwrap().parts(1 << 40).is_ok(), "one device is one mapping");
        assert!(Interleave::new(2, 4096).unwrap().parts(1 << 30).is_err());
    }
}
