//! Scenarios and what is wrong with them. One program, since each further one is linked again and runs alone.

mod any_text;
mod errors;
mod protocols;
mod scenarios;
