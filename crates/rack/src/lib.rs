//! What a rack is: the scenario file, its errors, and the topologies it names.
