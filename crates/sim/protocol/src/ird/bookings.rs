//! Bookings: time on a node's link that is reserved for packets of transfers, counted separately for each size class of
//! transfers.

use unrack_units::Time;

/// Size class of a transfer: the number of bits of the time, in ps, that its remaining segments take on a node's link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SizeClass(u8);

/// Number of size classes: one for each possible number of bits of a 64-bit time, including 0.
const CLASSES: usize = u64::BITS as usize + 1;

impl SizeClass {
    pub(super) const LEAST: SizeClass = SizeClass(0);
    pub(super) const MOST: SizeClass = SizeClass(u64::BITS as u8);

    /// Returns the size class of a transfer that has `segments` segments left. Each segment takes the time `pace` on a
    /// node's link.
    pub(super) fn new(segments: u32, pace: Time) -> SizeClass {
        let left = pace.as_ps().saturating_mul(u64::from(segments));
        SizeClass((u64::BITS - left.leading_zeros()) as u8)
    }
}

/// Time that is booked on one link, for each size class of transfers and in total.
#[derive(Debug, Clone)]
pub(super) struct Bookings {
    by_class: [Time; CLASSES],
    total: Time,
}

impl Default for Bookings {
    fn default() -> Bookings {
        Bookings { by_class: [Time::ZERO; CLASSES], total: Time::ZERO }
    }
}

impl Bookings {
    /// Books `time` for a transfer of this size class.
    pub(super) fn add(&mut self, class: SizeClass, time: Time) {
        self.by_class[usize::from(class.0)] += time;
        self.total += time;
    }

    /// Releases `time` that was booked for a transfer of this size class.
    pub(super) fn remove(&mut self, class: SizeClass, time: Time) {
        let booked = &mut self.by_class[usize::from(class.0)];
        debug_assert!(*booked >= time, "what is given back was booked");
        *booked = booked.saturating_sub(time);
        self.total = self.total.saturating_sub(time);
    }

    /// Returns whether no time is booked for any transfer.
    pub(super) fn is_empty(&self) -> bool {
        self.total == Time::ZERO
    }

    /// Returns whether the time that is booked for transfers of this size class and of smaller classes is more than
    /// `most` in total.
    pub(super) fn exceeds(&self, class: SizeClass, most: Time) -> bool {
        let no_larger =
            || self.by_class[..=usize::from(class.0)].iter().fold(Time::ZERO, |sum, time| sum + *time);
        self.total > most && no_larger() > most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_booked_for_larger_transfers_does_not_count() {
        let ns = Time::from_ns;
        let (small, large) = (SizeClass::new(1, ns(10)), SizeClass::new(9, ns(10)));
        assert!(small < large && SizeClass::new(u32::MAX, Time::MAX) > large);
        let mut bookings = Bookings::default();
        bookings.add(large, ns(100));
        assert!(bookings.exceeds(large, ns(99)) && !bookings.exceeds(large, ns(100)));
        assert!(!bookings.exceeds(small, ns(99)));
        bookings.add(small, ns(60));
        assert!(bookings.exceeds(large, ns(159)) && bookings.exceeds(small, ns(59)));
        bookings.remove(small, ns(60));
        bookings.remove(large, ns(100));
        assert!(bookings.is_empty());
    }
}
