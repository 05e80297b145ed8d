//! Tables, and pages that move. One program, because each further one is linked again and runs alone.

mod moves;
mod table;
