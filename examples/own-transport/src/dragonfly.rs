//! A dragonfly (Kim et al., ISCA 2008): groups of switches that are all linked to each other, and one cable between
//! any two groups.

use unrack_rack::{Connects, RefusedTopology, Switches};

/// Keys of the topology; their comments are what `unrack scenario explain` prints.
#[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dragonfly {
    /// Switches of each group.
    pub switches: u32,
    /// Hosts at each switch.
    pub hosts: u32,
    /// Groups: at most one more than switches of a group, so that each switch has at most one cable to another.
    pub groups: u32,
}

impl Connects for Dragonfly {
    const NAME: &'static str = "dragonfly";
    const ABOUT: &'static str = "groups of switches, and one cable between any two groups";

    fn switches(&self) -> Result<Switches, RefusedTopology> {
        let Dragonfly { switches, hosts, groups } = *self;
        if !(1..=256).contains(&switches) {
            return Err(RefusedTopology::new("switches", format!("{switches} is outside 1 to 256")));
        }
        if !(1..=switches + 1).contains(&groups) {
            return Err(RefusedTopology::new("groups", format!("{groups} is outside 1 to {}", switches + 1)));
        }
        let pairs = |number: u32| (0..number).flat_map(move |a| (a + 1..number).map(move |b| (a, b)));
        let inside = (0..groups).flat_map(|group| {
            pairs(switches).map(move |(a, b)| (group * switches + a, group * switches + b))
        });
        // Group `a` reaches group `b` from its switch b - 1, and is reached at switch a.
        let between = pairs(groups).map(|(a, b)| (a * switches + b - 1, b * switches + a));
        let cables = inside.chain(between).collect();
        Ok(Switches { racks: groups * switches, hosts_per_rack: hosts, switches: groups * switches, cables })
    }
}
