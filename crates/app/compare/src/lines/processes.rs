//! Processes of a run: which threads' times add up to the time of the run.
//!
//! The time of a process is that of the thread that takes longest with remote memory. Programs that one process executes in turn (`exec`)
//! run one after another, so their times add up. The times of a parent and its children add up, too, because parents mostly wait. Of
//! children that ran at the same time only one counts: the selected children ran one after another and have the largest total time.

use std::collections::BTreeMap;

/// One program that one process executed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProcessMember {
    pub pid: u32,
    pub parent: u32,
    /// Start, in nanoseconds of a clock that is common to all members.
    pub start_ns: u64,
    /// Time from its start to its end, in nanoseconds.
    pub wall_ns: u64,
    /// Time of the member's longest thread, in seconds.
    pub time_s: f64,
}

/// Returns the indices of the programs whose times add up to the time of the run, in ascending order.
pub(crate) fn critical(members: &[ProcessMember]) -> Vec<usize> {
    let family = ProcessMembers::new(members);
    let roots: Vec<u32> = family.own.keys().copied().filter(|pid| family.is_root(*pid)).collect();
    // A process whose parent had ended before is a root, too. Roots ran at the same time, so only the longest counts.
    let best = roots.into_iter().map(|root| family.path(root)).max_by(|a, b| a.time_s.total_cmp(&b.time_s));
    let mut indices = best.map(|path| path.indices).unwrap_or_default();
    indices.sort_unstable();
    indices
}

/// Members whose times add up, and the sum of their times.
#[derive(Clone, Default)]
struct TimePath {
    indices: Vec<usize>,
    time_s: f64,
}

/// Members by their process.
struct ProcessMembers<'a> {
    members: &'a [ProcessMember],
    own: BTreeMap<u32, Vec<usize>>,
    children: BTreeMap<u32, Vec<u32>>,
}

impl<'a> ProcessMembers<'a> {
    fn new(members: &'a [ProcessMember]) -> ProcessMembers<'a> {
        let mut family = ProcessMembers { members, own: BTreeMap::new(), children: BTreeMap::new() };
        for (index, member) in members.iter().enumerate() {
            family.own.entry(member.pid).or_default().push(index);
        }
        for (pid, own) in &family.own {
            family.children.entry(members[own[0]].parent).or_default().push(*pid);
        }
        family
    }

    /// Returns whether a process is a root: its parent is not part of the run, or has a larger number, which happens when numbers are
    /// reused. Because all other parents have smaller numbers than their children, the recursion over children ends.
    fn is_root(&self, pid: u32) -> bool {
        let parent = self.members[self.own[&pid][0]].parent;
        parent >= pid || !self.own.contains_key(&parent)
    }

    /// Returns the start and the end of a process.
    fn span_ns(&self, pid: u32) -> (u64, u64) {
        let own = || self.own[&pid].iter().map(|index| &self.members[*index]);
        let end = own().map(|member| member.start_ns.saturating_add(member.wall_ns)).max();
        (own().map(|member| member.start_ns).min().unwrap_or(0), end.unwrap_or(0))
    }

    fn path(&self, pid: u32) -> TimePath {
        let own = self.own[&pid].clone();
        let time_s = own.iter().map(|index| self.members[*index].time_s).sum();
        let children = self.children.get(&pid).into_iter().flatten().filter(|child| **child > pid);
        let below = children.map(|child| (self.span_ns(*child), self.path(*child))).collect();
        TimePath { indices: own, time_s }.then(&one_after_another(below))
    }
}

/// Returns the sequences of programs that do not overlap in time and have the largest total time: weighted interval scheduling (Kleinberg
/// and Tardos, Algorithm Design, section 6.1).
fn one_after_another(mut paths: Vec<((u64, u64), TimePath)>) -> TimePath {
    paths.sort_by_key(|((_, end), _)| *end);
    let mut best = vec![TimePath::default()];
    for (number, ((start, _), path)) in paths.iter().enumerate() {
        let before = paths[..number].partition_point(|((_, end), _)| end <= start);
        let with = best[before].clone().then(path);
        let without = &best[number];
        best.push(if with.time_s > without.time_s { with } else { without.clone() });
    }
    best.pop().unwrap_or_default()
}

impl TimePath {
    fn then(mut self, next: &TimePath) -> TimePath {
        self.indices.extend(&next.indices);
        TimePath { indices: self.indices, time_s: self.time_s + next.time_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(pid: u32, parent: u32, (start_ns, end_ns): (u64, u64), time_s: f64) -> ProcessMember {
        ProcessMember { pid, parent, start_ns, wall_ns: end_ns - start_ns, time_s }
    }

    #[test]
    fn programs_of_one_process_and_children_in_turn_add_up() {
        let members = [
            member(10, 1, (0, 100), 0.5),
            member(11, 10, (5, 40), 1.0),
            member(12, 10, (40, 90), 2.0),
            member(12, 10, (90, 95), 0.25),
        ];
        assert_eq!(critical(&members), [0, 1, 2, 3]);
    }

    #[test]
    fn of_children_at_the_same_time_the_longest_counts() {
        let parent = member(10, 1, (0, 100), 0.5);
        let members = [parent, member(11, 10, (0, 90), 1.0), member(12, 10, (5, 95), 2.0)];
        assert_eq!(critical(&members), [0, 2]);
        let members = [
            parent,
            member(11, 10, (0, 40), 1.5),
            member(12, 10, (30, 60), 2.0),
            member(13, 10, (60, 90), 1.0),
            member(14, 10, (50, 100), 0.75),
        ];
        assert_eq!(critical(&members), [0, 2, 3], "2 and 1 are more than 1.5 and 1");
    }

    #[test]
    fn an_orphan_ran_beside_the_others() {
        let members = [member(10, 1, (0, 100), 0.5), member(40, 1, (0, 300), 0.75)];
        assert_eq!(critical(&members), [1]);
        assert_eq!(critical(&[]), Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn no_member_counts_twice_and_none_alone_is_more(
            drawn in prop::collection::vec((0u32..12, 0u32..12, 0u64..50, 1u64..100, 0.0f64..10.0), 1..20),
        ) {
            let members: Vec<ProcessMember> = drawn
                .iter()
                .map(|(a, b, start, wall, time)| member(*a, *b, (*start, start + wall), *time))
                .collect();
            let found = critical(&members);
            prop_assert!(found.windows(2).all(|two| two[0] < two[1]), "{:?}", found);
            let sum: f64 = found.iter().map(|index| members[*index].time_s).sum();
            let most = members.iter().map(|member| member.time_s).fold(0.0, f64::max);
            prop_assert!(sum >= most - 1e-9, "{} of {:?}", sum, members);
        }
    }
}
