//! Pages, texts and pictures. One program, since each further one is linked again and runs alone.

mod browser;
mod export;
mod labels;
mod page;
mod specs;
mod synthetic;
mod text;
