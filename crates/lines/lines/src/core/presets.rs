//! Parameters of known cores, by the name of the processor.
//!
//! Sources:
//! - Queues, widths, ports and latencies of operations: AMD's Software Optimization Guides 56305 (Zen 2), 56665 (Zen
//!   3), 57647 (Zen 4) and 58455 (Zen 5), and Intel's Optimization Reference Manual 248966, sections on Skylake
//!   Server, Ice Lake and Golden Cove.
//! - Further latencies of operations and dividers: Agner Fog, *Instruction tables*, and uops.info.
//! - Miss buffers, page walkers and latencies of the last-level cache, which depend on the processor model:
//!   measurements of each core by chipsandcheese.com.
//!
//! If a real machine differs from these numbers, use the calibration of this machine instead.
//!
//! In AMD's cores, a load releases its entry of the load queue when it obtains its value, and a larger structure then
//! tracks the load until it retires ("AMD's Zen 4, Part 2", chipsandcheese.com, 2022). That structure has 136 entries
//! in Zen 4, whereas AMD states 88 entries for the load queue. In Zen 3, it has 116 entries, whereas AMD states 72. The
//! presets use the size of the larger structure, because a load of the model holds its entry until retirement.

use super::parameters::{CacheLatencies, CoreParameters, CorePorts, OperationLatencies};

impl CoreParameters {
    /// Returns the core parameters of a processor at its base clock. The names are those of
    /// [`Processor::by_name`](crate::processor::Processor::by_name). Returns `None` for any other name.
    pub fn by_name(name: &str) -> Option<CoreParameters> {
        Some(match name {
            "zen2" => zen2(),
            "zen3" => zen3(),
            "zen4" => zen4(),
            "zen5" => zen5(),
            "skylake-sp" => skylake(),
            "icelake-sp" => ice_lake(),
            "sapphire-rapids" => golden_cove(),
            _ => return None,
        })
    }
}

fn zen2() -> CoreParameters {
    CoreParameters {
        // The operation cache delivers one entry per cycle.
        fetch_groups: 1,
        fetch_width: 8,
        dispatch_width: 6,
        retire_width: 8,
        turn: 1.0,
        reorder_buffer: 224,
        load_queue: 44,
        store_queue: 48,
        fill_buffers: 22,
        prefetch_buffers: 48,
        // Four schedulers of 16 entries, and one of 28 for address generation: 92, rounded down to a multiple of 8.
        scheduler: 88,
        vector_scheduler: Some(96),
        ports: CorePorts {
            integer: 4,
            multiply: 1,
            branch: 1,
            vector: 4,
            float_add: 2,
            float_multiply: 2,
            load: 2,
            store: 1,
            memory: 3,
            vector_load: 2,
            vector_store: 1,
        },
        divide_interval: 12.0,
        float_divide_interval: 5.0,
        walkers: 2,
        walk_latency: 0.0,
        cached_walk_latency: 0.0,
        mispredict_penalty: 16.0,
        forward_latency: 7.0,
        operations: OperationLatencies { divide_32: 12.0, divide_64: 17.0, ..zen_operations() },
        caches: CacheLatencies {
            l1: 4.0,
            l2: 12.0,
            l3: 39.0,
            fill_interval: 2.0,
            store_fill_interval: 4.0,
            l3_interval: 2.0,
            l3_demand_interval: 2.0,
            peer: 90.0,
            second_level_tlb: 7.0,
        },
        frequency_ghz: 2.25,
    }
}

fn zen3() -> CoreParameters {
    CoreParameters {
        reorder_buffer: 256,
        load_queue: 116,
        store_queue: 64,
        fill_buffers: 24,
        scheduler: 96,
        vector_scheduler: Some(128),
        ports: CorePorts { branch: 2, load: 3, store: 2, ..zen2().ports },
        divide_interval: 6.0,
        walkers: 6,
        // Guide 56665, section 2.8: 11 to 18 cycles. The upper end is used because it includes the fetch of the right
        // path.
        mispredict_penalty: 18.0,
        // Section 2.12: memory renaming. A predicted pair of store and load takes no time.
        forward_latency: 0.0,
        operations: OperationLatencies { divide_32: 10.0, divide_64: 13.0, ..zen_operations() },
        caches: CacheLatencies { l3: 46.0, peer: 100.0, ..zen2().caches },
        frequency_ghz: 2.45,
        ..zen2()
    }
}

fn zen4() -> CoreParameters {
    CoreParameters {
        reorder_buffer: 320,
        load_queue: 136,
        caches: CacheLatencies { l2: 14.0, l3: 50.0, ..zen3().caches },
        frequency_ghz: 2.4,
        ..zen3()
    }
}

fn zen5() -> CoreParameters {
    CoreParameters {
        // Two entries of six instructions, from two predictions per cycle.
        fetch_groups: 2,
        fetch_width: 6,
        dispatch_width: 8,
        // 224 entries of up to two operations for each of two threads.
        reorder_buffer: 448,
        load_queue: 202,
        store_queue: 104,
        // One scheduler for integer operations and one for address generation.
        scheduler: 88 + 56,
        // Three schedulers of 38 entries, rounded down to a multiple of 8.
        vector_scheduler: Some(112),
        ports: CorePorts {
            integer: 6,
            multiply: 3,
            branch: 3,
            load: 4,
            memory: 4,
            vector_store: 2,
            ..zen4().ports
        },
        operations: OperationLatencies { float_add: 2.0, ..zen4().operations },
        caches: CacheLatencies { l2: 14.0, l3: 50.0, ..zen4().caches },
        frequency_ghz: 2.6,
        ..zen4()
    }
}

fn skylake() -> CoreParameters {
    CoreParameters {
        fetch_groups: 1,
        fetch_width: 6,
        dispatch_width: 4,
        retire_width: 4,
        turn: 1.0,
        reorder_buffer: 224,
        load_queue: 72,
        store_queue: 56,
        fill_buffers: 12,
        prefetch_buffers: 16,
        scheduler: 96,
        vector_scheduler: None,
        ports: CorePorts {
            integer: 4,
            multiply: 1,
            branch: 2,
            vector: 3,
            float_add: 2,
            float_multiply: 2,
            load: 2,
            store: 1,
            memory: 3,
            vector_load: 2,
            vector_store: 1,
        },
        divide_interval: 6.0,
        float_divide_interval: 4.0,
        walkers: 2,
        walk_latency: 0.0,
        cached_walk_latency: 0.0,
        mispredict_penalty: 16.0,
        forward_latency: 5.0,
        operations: OperationLatencies { divide_32: 26.0, divide_64: 42.0, ..intel_operations() },
        caches: CacheLatencies {
            l1: 5.0,
            l2: 14.0,
            l3: 68.0,
            fill_interval: 1.0,
            store_fill_interval: 2.0,
            l3_interval: 4.0,
            l3_demand_interval: 4.0,
            peer: 130.0,
            second_level_tlb: 7.0,
        },
        frequency_ghz: 2.5,
    }
}

fn ice_lake() -> CoreParameters {
    CoreParameters {
        dispatch_width: 5,
        retire_width: 8,
        reorder_buffer: 352,
        load_queue: 128,
        store_queue: 72,
        prefetch_buffers: 32,
        scheduler: 160,
        ports: CorePorts { store: 2, memory: 4, vector_store: 2, ..skylake().ports },
        mispredict_penalty: 17.0,
        operations: OperationLatencies { divide_32: 12.0, divide_64: 15.0, ..intel_operations() },
        caches: CacheLatencies { l3: 73.0, ..skylake().caches },
        frequency_ghz: 2.6,
        ..skylake()
    }
}

fn golden_cove() -> CoreParameters {
    CoreParameters {
        fetch_width: 8,
        dispatch_width: 6,
        reorder_buffer: 512,
        load_queue: 192,
        store_queue: 112,
        fill_buffers: 16,
        prefetch_buffers: 48,
        scheduler: 200,
        ports: CorePorts { integer: 5, load: 3, memory: 5, vector_load: 3, ..ice_lake().ports },
        walkers: 4,
        operations: OperationLatencies { float_add: 3.0, ..ice_lake().operations },
        caches: CacheLatencies { l2: 15.0, l3: 110.0, peer: 180.0, ..ice_lake().caches },
        frequency_ghz: 2.0,
        ..ice_lake()
    }
}

/// Returns the latencies of operations in AMD's cores since Zen 2. Divisions have the latencies of Zen 3.
fn zen_operations() -> OperationLatencies {
    OperationLatencies {
        integer: 1.0,
        multiply: 3.0,
        divide_32: 10.0,
        divide_64: 13.0,
        vector: 1.0,
        float_add: 3.0,
        float_multiply: 3.0,
        float_divide: 13.0,
        cross: 3.0,
        serializing: 18.0,
        system_call: 0.0,
    }
}

/// Returns the latencies of operations in Intel's cores since Skylake. Divisions have the latencies of Ice Lake.
fn intel_operations() -> OperationLatencies {
    OperationLatencies {
        integer: 1.0,
        multiply: 3.0,
        divide_32: 12.0,
        divide_64: 15.0,
        vector: 1.0,
        float_add: 4.0,
        float_multiply: 4.0,
        float_divide: 13.0,
        cross: 2.0,
        serializing: 18.0,
        system_call: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::Processor;

    #[test]
    fn every_processor_has_a_valid_core() {
        for name in Processor::names() {
            CoreParameters::by_name(name).unwrap().check().unwrap();
        }
        assert_eq!(CoreParameters::by_name("zen"), None);
    }
}
