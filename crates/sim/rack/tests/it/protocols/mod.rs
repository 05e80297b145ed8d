//! Protocols that the scenarios of these tests name.

use unrack_rack::{KnownNames, Networks, Profile, Protocol};

const IDEAL: Profile = Profile {
    networks: Networks::Any,
    several_links: true,
    no_shared_buffer: Some("`ideal` is a bound without switches"),
    no_faults: Some("`ideal` is a bound without links"),
    ..named("ideal")
};
const EDM: Profile = Profile {
    networks: Networks::Star,
    no_shared_buffer: Some("the switch of `edm` queues no data (EDM §3.1)"),
    ..named("edm")
};
const TCP: Profile = Profile { networks: Networks::Any, several_links: true, hosts: true, ..named("tcp") };
const DCTCP: Profile = Profile { name: "dctcp", ..TCP };
const MPTCP: Profile = Profile { several_links: true, hosts: true, ..named("mptcp") };
const CXL: Profile = Profile {
    no_shared_buffer: Some("credits of `cxl` are for the buffer of one link each"),
    ..named("cxl")
};
const HOMA: Profile = named("homa");
const NDP: Profile = named("ndp");
const PFC_DCQCN: Profile = named("pfc-dcqcn");
const R2C2: Profile = Profile {
    networks: Networks::Direct,
    no_shared_buffer: Some("a node of `r2c2` has a separate queue for each link"),
    ..named("r2c2")
};
const PFQ: Profile = Profile {
    networks: Networks::Direct,
    no_shared_buffer: Some("a node of `pfq` has a queue for each flow"),
    no_faults: Some("`pfq` loses nothing, and so sends nothing again"),
    ..named("pfq")
};

const fn named(name: &'static str) -> Profile {
    Profile { name, ..Profile::SWITCHED }
}

/// Returns the protocols.
pub(crate) fn known() -> KnownNames {
    let profiles = [&IDEAL, &EDM, &CXL, &DCTCP, &TCP, &HOMA, &NDP, &PFC_DCQCN, &MPTCP, &R2C2, &PFQ];
    KnownNames { protocols: profiles.map(Protocol::new).to_vec(), ..KnownNames::default() }
}
