//! Bookings: time on a link that is promised to packets of transfers, by the sizes of these transfers.

use unrack_units::Time;

/// Size class of the remainder of a transfer: the logarithm to base 2 of its time on a node's link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SizeClass(u8);

/// Number of classes: one for each bit length of a time.
const CLASSES: usize = u64::BITS as usize + 1;

impl SizeClass {
    pub(super) const LEAST: SizeClass = SizeClass(0);
    pub(super) const MOST: SizeClass = SizeClass(u64::BITS as u8);

    /// Returns the class of a transfer with `segments` segments left, each of which takes this time on a link.
    pub(super) fn new(segments: u32, pace: Time) -> SizeClass {
        let left = pace.as_ps().saturating_mul(u64::from(segments));
        SizeClass((u64::BITS - left.leading_zeros()) as u8)
    }
}

/// Time that is booked on a link, by the class of the transfer.
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
    /// Books time for a transfer of this class.
    pub(super) fn add(&mut self, class: SizeClass, time: Time) {
        self.by_class[usize::from(class.0)] += time;
        self.total += time;
    }

    /// Gives back time that was booked for a transfer of this class.
    pub(super) fn remove(&mut self, class: SizeClass, time: Time) {
        let booked = &mut self.by_class[usize::from(class.0)];
        debug_assert!(*booked >= time, "what is given back was booked");
        *booked = booked.saturating_sub(time);
        self.total = self.total.saturating_sub(time);
    }

    /// Returns whether no time is booked.
    pub(super) fn is_empty(&self) -> bool {
        self.total == Time::ZERO
    }

    /// Returns whether more than `most` is booked for transfers of this class and smaller ones.
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
