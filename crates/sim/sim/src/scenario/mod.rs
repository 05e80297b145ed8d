//! Conversion of a checked scenario to a run. Only this module knows both the terms of scenarios and those of the
//! simulator.

mod jobs;
mod margins;
mod size;

pub use self::margins::{check_margins, excluded};
pub(crate) use self::size::mean_size;
use self::size::read_size;
use crate::config::FabricConfig;
use crate::setup::Setup;
use crate::site::{Ethernet, SwitchBuffer};
use crate::work::Work;
use std::sync::Arc;
use unrack_engine::HostModel;
use unrack_engine::error::SetupError;
use unrack_engine::faults::{BrokenPart, Downtime, ErrorRates, FaultSchedule};
use unrack_engine::network::{Network, Pace};
use unrack_engine::topology::{Link, Topology};
use unrack_rack as rack;
use unrack_rack::{Blades, ScenarioError, ValidScenario};
use unrack_units::{Bytes, Time};
use unrack_workload::trace::TraceRow;
use unrack_workload::{CapturedTrace, DiskShare, MemoryMix, Message, ReplaySpec, SyntheticSpec, Traffic};

impl Setup {
    /// Creates the network and fabric that a scenario describes.
    ///
    /// # Errors
    /// If the parameters of the fabric, the links or the faults are invalid or do not fit together.
    pub fn from_scenario(scenario: &mut ValidScenario) -> Result<Setup, ScenarioError> {
        let fabric = FabricConfig::from_scenario(scenario)?;
        let mut setup = Setup::with_fabric(scenario, fabric);
        if let Some(assumed) = setup.assumed_buffer().filter(|assumed| assumed.is_default) {
            scenario.default_buffer(assumed.bytes.max(scenario.network.mtu));
            setup.ethernet.buffer = buffer(&scenario.network.switch);
        }
        setup.check_links().map_err(|why| why.in_scenario(scenario))?;
        if scenario.faults.is_empty() {
            return Ok(setup);
        }
        let faults = faults(scenario, &setup.network.topology).map_err(|why| why.in_scenario(scenario))?;
        let Network { topology, switch_latency } = setup.network;
        let network = Network { topology: topology.with_faults(faults), switch_latency };
        Ok(Setup { network, ..setup })
    }

    /// Creates the network of a scenario with a fabric that the caller chooses.
    pub fn with_fabric(scenario: &ValidScenario, fabric: FabricConfig) -> Setup {
        let rack::NetworkSpec { topology, link, core_link, cxl_link, switch, mtu, headers } =
            &scenario.network;
        let link_of =
            |link: &rack::LinkSpec| Link { pace: Pace::new(link.rate), propagation: link.propagation };
        let (host, core) = (link_of(link), link_of(core_link));
        let topology = match *topology {
            rack::TopologySpec::Graph(rack::Cabling { ref graph, ref cables, .. }) => {
                let of = |cable: &rack::graph::list::Cable| rack::LinkSpec {
                    rate: cable.rate.unwrap_or(link.rate),
                    propagation: cable.propagation.unwrap_or(link.propagation),
                };
                let cables: Vec<Link> = cables.iter().map(|cable| link_of(&of(cable))).collect();
                Topology::direct_by(graph.clone(), &cables)
            }
            rack::TopologySpec::Star { nodes } => Topology::star(nodes, host),
            rack::TopologySpec::Built(ref built) => Topology::built(&built.switches, host, core),
            rack::TopologySpec::LeafSpine { racks, hosts_per_rack, spines } => {
                Topology::leaf_spine(racks, hosts_per_rack, spines, host, core)
            }
            rack::TopologySpec::FatTree { ports } => Topology::fat_tree(ports, host, core),
            rack::TopologySpec::Drack { racks, hosts_per_rack, cores } => {
                let wiring = rack::Wiring { racks, hosts_per_rack, cores };
                Topology::drack(wiring, host, core, link_of(cxl_link))
            }
            rack::TopologySpec::Torack { racks, hosts_per_rack, uplinks } => {
                Topology::leaf_spine(racks, hosts_per_rack, uplinks, host, core)
            }
            rack::TopologySpec::Torus { .. } | rack::TopologySpec::Mesh { .. } => {
                let graph = scenario.network.topology.graph().expect("tori and meshes are graphs");
                Topology::direct(graph, host)
            }
        };
        let topology = match &scenario.host {
            Some(spec) => {
                topology.with_hosts(HostModel { spec: Arc::new(spec.clone()), cxl: link_of(cxl_link) })
            }
            None => topology,
        };
        Setup {
            network: Network { topology, switch_latency: switch.latency },
            ethernet: Ethernet {
                mtu: *mtu,
                headers: *headers == rack::Headers::Ethernet,
                buffer: buffer(switch),
                cut_through: switch.cut_through,
            },
            fabric,
            seed: scenario.seed,
            time_limit: Time::MAX,
        }
    }
}

fn buffer(switch: &rack::SwitchSpec) -> SwitchBuffer {
    match switch.buffer {
        rack::BufferSize::Limited(size) => SwitchBuffer::Private(size),
        rack::BufferSize::Unlimited => SwitchBuffer::Private(Bytes::new(u64::MAX)),
        rack::BufferSize::Shared(size) => SwitchBuffer::Shared { size, alpha: switch.alpha() },
    }
}

fn faults(scenario: &ValidScenario, topology: &Topology) -> Result<FaultSchedule, SetupError> {
    let rack::Faults { failures, bit_errors } = &scenario.faults;
    let failure = |failure: &rack::ScheduledFailure| Downtime {
        what: match (failure.node, failure.switch, failure.between) {
            (Some(node), ..) => BrokenPart::Node(node),
            (_, Some(switch), _) => BrokenPart::Switch(switch),
            (.., between) => {
                let (a, b) = between.expect("a checked failure says what fails");
                BrokenPart::Between(a, b)
            }
        },
        from: failure.from,
        until: failure.until.unwrap_or(Time::MAX),
        every: failure.every,
        detected_after: failure.detected_after,
    };
    let failures: Vec<Downtime> = failures.iter().map(failure).collect();
    let errors = ErrorRates { host: bit_errors.link, core: bit_errors.core_link };
    FaultSchedule::new(topology, &failures, errors, scenario.seed)
}

impl Work {
    /// Returns the traffic that a scenario describes completely. Returns `None` if the scenario names a trace; the
    /// caller must then read the file and call [`Work::captured`] or [`Work::listed`].
    ///
    /// # Errors
    /// If a parameter of the workload is out of range.
    pub fn drawn(scenario: &ValidScenario) -> Result<Option<Work>, ScenarioError> {
        let spec = match &scenario.workload {
            rack::Workload::Memory(memory) => memory_spec(memory),
            rack::Workload::Flows(flows) => flows_spec(flows),
            rack::Workload::Collective(collective) => return Ok(Some(Work::Collective(*collective))),
            rack::Workload::Jobs(jobs) => {
                let nodes = scenario.network.topology.nodes();
                let spec = jobs::jobs_spec(jobs, nodes, scenario.seed);
                return spec
                    .map(|spec| Some(Work::Jobs(spec)))
                    .map_err(|why| SetupError::from(why).in_scenario(scenario));
            }
            rack::Workload::Trace(_) => return Ok(None),
        };
        spec.map(|spec| Some(Work::Synthetic(spec))).map_err(|error| error.in_scenario(scenario))
    }

    /// Returns the replay of a captured program. `rows` are the rows of its `trace.parquet`, sorted by time. The pair
    /// of times is the duration of the captured run, and that of a native run if it is known. At most `limit` transfers
    /// are replayed over all replicas: a window in the middle of the run ([`CapturedTrace::middle`]), which the summary
    /// reports.
    ///
    /// # Errors
    /// If the rows do not form a valid trace.
    pub fn captured(
        rows: &[TraceRow],
        (run_time, native): (Time, Option<Time>),
        spec: ReplaySpec,
        limit: u64,
    ) -> Result<Work, SetupError> {
        let per_replica = limit / u64::from(spec.blades.compute.max(1));
        let trace = CapturedTrace::middle(rows, run_time, per_replica)?;
        let trace = match native {
            Some(native) => trace.at_native_pace(native),
            None => trace,
        };
        Ok(Work::Replay(Arc::new(trace), spec))
    }

    /// Returns work that submits messages at given times. The messages must be sorted by time.
    pub fn listed(messages: Vec<(Time, Message)>) -> Work {
        Work::Listed(Arc::new(messages))
    }
}

/// Returns how a scenario wants its trace to be replayed.
pub fn replay_spec(trace: &rack::Trace, nodes: u32, seed: u64) -> ReplaySpec {
    ReplaySpec {
        blades: trace.blades.unwrap_or(Blades::half(nodes)),
        mode: trace.replay,
        offsets: trace.time_offsets,
        seed,
    }
}

fn memory_spec(memory: &rack::Memory) -> Result<SyntheticSpec, SetupError> {
    let small = |key, bytes: Bytes| {
        u32::try_from(bytes.get())
            .map_err(|_| SetupError::new(key, format!("is at most {}", Bytes::new(u32::MAX.into())), bytes))
    };
    let disk = |disk: &rack::Disk| {
        let size = read_size("workload.disk.size", &disk.size)?;
        Ok::<_, SetupError>(DiskShare { fraction: disk.fraction.get(), size })
    };
    let mix = MemoryMix {
        read_fraction: memory.read_fraction.get(),
        request: small("workload.request_size", memory.request_size)?,
        rmw_fraction: memory.rmw_fraction.get(),
        rmw_request: small("workload.rmw_request_size", memory.rmw_request_size)?,
        rmw_answer: memory.rmw_size.get(),
        disk: memory.disk.as_ref().map(disk).transpose()?,
    };
    Ok(SyntheticSpec {
        traffic: Traffic::Memory(mix),
        size: read_size("workload.size", &memory.size)?,
        pattern: memory.pattern,
        blades: memory.blades,
        arrivals: memory.arrivals,
        load: memory.load.get(),
        messages: memory.messages,
    })
}

fn flows_spec(flows: &rack::FlowWorkload) -> Result<SyntheticSpec, SetupError> {
    Ok(SyntheticSpec {
        traffic: Traffic::Flows,
        size: read_size("workload.size", &flows.size)?,
        pattern: flows.pattern,
        blades: None,
        arrivals: flows.arrivals,
        load: flows.load.get(),
        messages: flows.messages,
    })
}
