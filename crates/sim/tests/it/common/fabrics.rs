//! Names of all fabrics, of which each program of tests uses some.
#![allow(unused_imports)]

pub use unrack_sim::fabric::cxl::Cxl;
pub use unrack_sim::fabric::dctcp::Dctcp;
pub use unrack_sim::fabric::edm::Edm;
pub use unrack_sim::fabric::fastpass::Fastpass;
pub use unrack_sim::fabric::ideal::Ideal;
pub use unrack_sim::fabric::mptcp::Mptcp;
pub use unrack_sim::fabric::ndp::Ndp;
pub use unrack_sim::fabric::pfabric::Pfabric;
pub use unrack_sim::fabric::pfc_dcqcn::PfcDcqcn;
pub use unrack_sim::fabric::pfq::Pfq;
pub use unrack_sim::fabric::r2c2::R2c2;
pub use unrack_sim::fabric::receiver_driven::{Homa, Ird, Phost};
pub use unrack_sim::fabric::tcp::Tcp;
pub use unrack_sim::{NoParams, Registered, known};

/// Returns the fabrics of which a run can be split.
#[allow(dead_code)]
pub fn splitting() -> Vec<unrack_rack::Protocol> {
    known().protocols.into_iter().filter(|it| it.profile().splits).collect()
}

/// Returns the fabrics whose packets wait in the buffers of switches.
#[allow(dead_code)]
pub fn buffered() -> Vec<unrack_rack::Protocol> {
    let waits = |it: &unrack_rack::Profile| it.no_shared_buffer.is_none() && it.networks.have_switches();
    known().protocols.into_iter().filter(|it| waits(it.profile())).collect()
}
