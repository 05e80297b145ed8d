//! Tests of the core: closed forms, laws, and a second way to the same numbers.

mod account;
mod bandwidth;
mod closed_forms;
mod front;
mod laws;
mod limits;
mod requests;
mod written;
mod wrong_path;

use super::*;
use written::Written;

/// Returns a core of round numbers: 4 slots a cycle, and queues that few tests fill.
fn parameters() -> CoreParameters {
    CoreParameters {
        fetch_groups: 1,
        fetch_width: 8,
        dispatch_width: 4,
        retire_width: 4,
        turn: 1.0,
        reorder_buffer: 224,
        load_queue: 72,
        store_queue: 56,
        fill_buffers: 10,
        prefetch_buffers: 16,
        scheduler: 4096,
        vector_scheduler: None,
        ports: CorePorts {
            integer: 8,
            multiply: 8,
            branch: 8,
            vector: 8,
            float_add: 8,
            float_multiply: 8,
            load: 8,
            store: 8,
            memory: 16,
            vector_load: 8,
            vector_store: 8,
        },
        divide_interval: 1.0,
        float_divide_interval: 1.0,
        walkers: 2,
        walk_latency: 0.0,
        cached_walk_latency: 0.0,
        mispredict_penalty: 15.0,
        forward_latency: 5.0,
        operations: OperationLatencies {
            integer: 1.0,
            multiply: 3.0,
            divide_32: 20.0,
            divide_64: 40.0,
            vector: 1.0,
            float_add: 4.0,
            float_multiply: 4.0,
            float_divide: 14.0,
            cross: 2.0,
            serializing: 18.0,
            system_call: 100.0,
        },
        caches: CacheLatencies {
            l1: 5.0,
            l2: 14.0,
            l3: 50.0,
            fill_interval: 0.0,
            store_fill_interval: 0.0,
            l3_interval: 0.0,
            l3_demand_interval: 0.0,
            peer: 90.0,
            second_level_tlb: 7.0,
        },
        frequency_ghz: 3.0,
    }
}

/// Far latencies of the lanes of most tests, in cycles.
const FAR: [f32; 16] = [
    200.0, 250.0, 300.0, 350.0, 400.0, 500.0, 600.0, 700.0, 800.0, 1000.0, 1200.0, 1500.0, 2000.0, 2500.0,
    3000.0, 4000.0,
];

/// Returns a lane whose memory is all far, at this latency and with these cycles for each line.
fn far(latency: f32, interval: f32) -> MemoryLane {
    let near = MemoryParameters { latency: 200.0, ..MemoryParameters::default() };
    MemoryLane { pages: NearPages::AllFar, near, far: MemoryParameters { latency, interval, ..near } }
}

fn far_lanes() -> Vec<MemoryLane> {
    FAR.iter().map(|latency| far(*latency, 0.0)).collect()
}

/// Returns the cycles of a program in each lane.
fn run(parameters: &CoreParameters, lanes: &[MemoryLane], written: &Written) -> Vec<f64> {
    let mut replay = CoreReplay::new(parameters, lanes, 0).unwrap();
    replay.run(&written.window, &written.blocks).cycles
}
