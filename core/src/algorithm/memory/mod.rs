//! Memory of requests: Rust buffers, and regions. A device may know a region by a handle, and other programs may write to it.
//!
//! The data of a request are one [`IoBuf`], or [`Segments`] of [`Region`]s. A `Vec` is the fast path. Memory that others may write at the
//! same time is never behind a Rust reference. The content of a region is copied once, or a device gets the region's address.

mod data;
mod iobuf;
mod region;

pub use data::Data;
pub use iobuf::IoBuf;
pub use region::{DeviceHandles, Origin, Region, Segment, Segments};
