//! Tables, pages that move, and arrows between modules. One program, since each further one is linked again and runs alone.

mod arrows;
mod moves;
mod table;
