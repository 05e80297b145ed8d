//! What the simulator as a whole has to keep to. One program: every one more would compile the fabrics again.

mod closed_forms;
mod common;
mod connections;
mod cxl;
mod dctcp;
mod drack;
mod edm;
mod edm_more;
mod faults;
mod give_up;
mod graph;
mod host;
mod ideal;
mod ideal_bound;
mod jobs;
mod observe;
mod packet;
mod r2c2;
mod replay;
mod scenario;
mod shared_buffers;
mod split;
mod synthetic;
mod topologies;
mod traffic;
mod transports;
