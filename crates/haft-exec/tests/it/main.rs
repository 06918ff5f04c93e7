//! The disk as tools use it: through the two capabilities, on real directories.

mod bombs;
mod containers;
mod crash;
mod many;
mod names;
mod near;
mod place;
mod programs;
mod scope;
mod sorts;
mod sweep;
mod together;
mod warrants;
mod writing;
