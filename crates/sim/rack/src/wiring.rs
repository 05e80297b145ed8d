//! Wiring of racks whose NICs are pooled (DRack §4.1, appendix A.1).
//!
//! With m racks of n hosts and n NICs each, rack r has the n NICs from number r n on. NIC i is linked to aggregation
//! switch i mod m, so that each switch has n NICs. If n >= m, every rack reaches every switch. If n < m, a rack reaches
//! n of the switches. There are then two cases. If n divides m, racks that reach the same switches form a pod, and core
//! switches connect the pods. If n does not divide m, neighbouring racks share some of their switches, and all racks
//! form one pod. The paper does not mention that case, but its rule applies: racks that share no switch reach each
//! other through the core switches.

use std::ops::Range;

/// Wiring of pooled NICs. It is computed by formulas instead of tables, so that its cost does not depend on its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wiring {
    /// Number of racks, m, which is also the number of aggregation switches.
    pub racks: u32,
    /// Number of hosts per rack, n, which is also the number of NICs per rack; at least 1.
    pub hosts_per_rack: u32,
    /// Number of core switches above the aggregation switches. Each core switch is linked to all aggregation switches.
    pub cores: u32,
}

impl Wiring {
    /// Returns the number of core switches at which no link is oversubscribed: each aggregation switch has one uplink
    /// for each of its NICs. Returns 0 if every rack reaches every switch, because then no core switch is needed.
    pub fn default_cores(racks: u32, hosts_per_rack: u32) -> u32 {
        if racks > hosts_per_rack { hosts_per_rack } else { 0 }
    }

    /// Returns the number of NICs of all racks.
    pub fn nics(&self) -> u32 {
        self.racks * self.hosts_per_rack
    }

    /// Returns the rack of a NIC.
    pub fn rack_of(&self, nic: u32) -> u32 {
        nic / self.hosts_per_rack
    }

    /// Returns the aggregation switch of a NIC.
    pub fn switch_of(&self, nic: u32) -> u32 {
        nic % self.racks
    }

    /// Returns the NIC at a position of a switch. The NICs of a switch, in order, are `nic_at(switch,
    /// 0..hosts_per_rack)`.
    pub fn nic_at(&self, switch: u32, place: u32) -> u32 {
        switch + place * self.racks
    }

    /// Returns the positions of the NICs of a rack at a switch. The range is empty if the rack does not reach the
    /// switch.
    pub fn places(&self, switch: u32, rack: u32) -> Range<u32> {
        let first_from = |nic: u32| (nic.saturating_sub(switch)).div_ceil(self.racks);
        first_from(rack * self.hosts_per_rack)..first_from((rack + 1) * self.hosts_per_rack)
    }

    /// Returns the switches that a rack reaches, as at most two ranges.
    pub fn reached(&self, rack: u32) -> (Range<u32>, Range<u32>) {
        if self.hosts_per_rack >= self.racks {
            return (0..self.racks, 0..0);
        }
        let first = rack * self.hosts_per_rack % self.racks;
        let end = first + self.hosts_per_rack;
        (first..end.min(self.racks), 0..end.saturating_sub(self.racks))
    }

    /// Returns the NICs of rack `src` whose switch also reaches rack `dst`, as two ranges. NICs are counted from the
    /// first NIC of the rack. Both ranges are empty if only core switches connect the racks.
    pub fn direct(&self, src: u32, dst: u32) -> (Range<u32>, Range<u32>) {
        let (n, m) = (self.hosts_per_rack, self.racks);
        if n >= m {
            return (0..n, 0..0);
        }
        // First switch that `dst` reaches, relative to the first switch that `src` reaches, on the circle of switches.
        let ahead = ((dst * n % m) + m - src * n % m) % m;
        if ahead == 0 {
            return (0..n, 0..0);
        }
        (ahead.min(n)..n, 0..(ahead + n).saturating_sub(m))
    }

    /// Returns the capacity between two racks through the switches that both of them reach, in NICs: the sum, over
    /// these switches, of the NICs of the rack that has fewer NICs there. It is below n if m does not divide n. (§4.1
    /// counts n for every pair of racks. For example, with 20 NICs at 8 switches, neighbouring racks have only 16,
    /// because one rack has three NICs where the other has two.)
    pub fn capacity(&self, a: u32, b: u32) -> u32 {
        let at = |switch, rack| self.places(switch, rack).len() as u32;
        (0..self.racks).map(|switch| at(switch, a).min(at(switch, b))).sum()
    }

    /// Returns the number of pods. Two racks are in one pod if they reach the same switches, or if a chain of racks
    /// that share switches connects them.
    pub fn pods(&self) -> u32 {
        let (m, n) = (self.racks, self.hosts_per_rack);
        if n < m && m.is_multiple_of(n) { m / n } else { 1 }
    }

    /// Returns the pod of a rack.
    pub fn pod_of(&self, rack: u32) -> u32 {
        rack % self.pods()
    }

    /// Returns the ratio of the total rate of the NICs of an aggregation switch to the total rate of its uplinks, if
    /// NICs and uplinks are equally fast. `None` if there are no core switches.
    pub fn oversubscription(&self) -> Option<f64> {
        (self.cores > 0).then(|| f64::from(self.hosts_per_rack) / f64::from(self.cores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn wiring(racks: u32, hosts_per_rack: u32) -> Wiring {
        let cores = Wiring::default_cores(racks, hosts_per_rack);
        Wiring { racks, hosts_per_rack, cores }
    }

    fn both((a, b): (Range<u32>, Range<u32>)) -> BTreeSet<u32> {
        a.chain(b).collect()
    }

    /// Example of appendix A.1, figure 12a: 4 racks of 8 hosts.
    #[test]
    fn more_hosts_than_racks_as_published() {
        let wiring = wiring(4, 8);
        let at = |switch| (0..8).map(|place| wiring.nic_at(switch, place)).collect::<Vec<_>>();
        assert_eq!(at(0), [0, 4, 8, 12, 16, 20, 24, 28]);
        assert_eq!(at(1), [1, 5, 9, 13, 17, 21, 25, 29]);
        assert!((0..4).all(|rack| both(wiring.reached(rack)).len() == 4), "every rack reaches all switches");
        assert_eq!((wiring.pods(), wiring.cores, wiring.oversubscription()), (1, 0, None));
    }

    /// Example of figure 12b: 16 racks of 8 hosts. Even racks are at switches 0 to 7, and odd racks at 8 to 15.
    #[test]
    fn more_racks_than_hosts_as_published() {
        let wiring = wiring(16, 8);
        for rack in 0..16 {
            let expected: BTreeSet<u32> = if rack % 2 == 0 { (0..8).collect() } else { (8..16).collect() };
            assert_eq!(both(wiring.reached(rack)), expected);
            assert_eq!(wiring.pod_of(rack), rack % 2);
        }
        assert_eq!((wiring.pods(), wiring.cores, wiring.oversubscription()), (2, 8, Some(1.0)));
    }

    /// Examples in the text of §4.1: in one, n is a multiple of m; in the other, it is not.
    #[test]
    fn the_examples_of_the_text() {
        for (n, m) in [(20, 10), (20, 8)] {
            let wiring = wiring(m, n);
            assert_eq!([0, 1, 2].map(|place| wiring.nic_at(0, place)), [0, m, 2 * m]);
            assert_eq!([0, 1, 2].map(|place| wiring.nic_at(1, place)), [1, m + 1, 2 * m + 1]);
        }
        // The statement "there are n uplinks for every pair of racks" holds with 10 switches, but not with 8.
        assert_eq!(both(wiring(10, 20).direct(3, 7)).len(), 20);
        assert_eq!((wiring(10, 20).capacity(3, 7), wiring(8, 20).capacity(0, 1)), (20, 16));
        assert_eq!(wiring(8, 20).capacity(0, 2), 20, "racks that begin at the same switch");
    }

    proptest! {
        /// All functions agree with the rule for every NIC.
        #[test]
        fn nic_i_is_at_switch_i_mod_m(m in 1u32..40, n in 1u32..40) {
            let wiring = wiring(m, n);
            let mut seen = BTreeSet::new();
            for switch in 0..m {
                for place in 0..n {
                    let nic = wiring.nic_at(switch, place);
                    prop_assert!(nic < m * n && nic % m == switch && seen.insert(nic));
                    prop_assert_eq!(wiring.switch_of(nic), switch);
                    prop_assert!(wiring.places(switch, wiring.rack_of(nic)).contains(&place));
                }
                let places: u32 = (0..m).map(|rack| wiring.places(switch, rack).len() as u32).sum();
                prop_assert_eq!(places, n);
            }
        }

        #[test]
        fn what_a_rack_reaches_is_where_its_nics_are(m in 1u32..40, n in 1u32..40, rack: u32, other: u32) {
            let (wiring, rack, other) = (wiring(m, n), rack % m, other % m);
            let switches = |rack| (0..n).map(move |j| (rack * n + j) % m).collect::<BTreeSet<u32>>();
            prop_assert_eq!(both(wiring.reached(rack)), switches(rack));
            prop_assert!(n < m || wiring.pods() == 1);
            if n % m == 0 {
                prop_assert_eq!(wiring.capacity(rack, other), n);
            }
            let shared: BTreeSet<u32> =
                (0..n).filter(|j| switches(other).contains(&((rack * n + j) % m))).collect();
            prop_assert_eq!(both(wiring.direct(rack, other)), shared.clone());
            // With pods, two racks share either all switches or none.
            if n < m && m % n == 0 {
                let same = wiring.pod_of(rack) == wiring.pod_of(other);
                prop_assert_eq!(shared.len() as u32, if same { n } else { 0 });
            }
        }
    }
}
