//! Names of all fabrics, of which each program of tests uses some.
#![allow(unused_imports)]

pub(crate) use unrack_sim::fabric::cxl::Cxl;
pub(crate) use unrack_sim::fabric::dctcp::Dctcp;
pub(crate) use unrack_sim::fabric::edm::Edm;
pub(crate) use unrack_sim::fabric::fastpass::Fastpass;
pub(crate) use unrack_sim::fabric::ideal::Ideal;
pub(crate) use unrack_sim::fabric::mptcp::Mptcp;
pub(crate) use unrack_sim::fabric::ndp::Ndp;
pub(crate) use unrack_sim::fabric::pfabric::Pfabric;
pub(crate) use unrack_sim::fabric::pfc_dcqcn::PfcDcqcn;
pub(crate) use unrack_sim::fabric::pfq::Pfq;
pub(crate) use unrack_sim::fabric::r2c2::R2c2;
pub(crate) use unrack_sim::fabric::receiver_driven::{Homa, Ird, Phost};
pub(crate) use unrack_sim::fabric::tcp::Tcp;
pub(crate) use unrack_sim::{NoParams, Registered, known};

/// Returns the fabrics of which a run can be split.
#[allow(dead_code)]
pub(crate) fn splitting() -> Vec<unrack_rack::Protocol> {
    known().protocols.into_iter().filter(|it| it.profile().splits).collect()
}

/// Returns the fabrics whose packets wait in the buffers of switches.
#[allow(dead_code)]
pub(crate) fn buffered() -> Vec<unrack_rack::Protocol> {
    let waits = |it: &unrack_rack::Profile| it.no_shared_buffer.is_none() && it.networks.have_switches();
    known().protocols.into_iter().filter(|it| waits(it.profile())).collect()
}
