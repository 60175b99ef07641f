//! Memory of requests: Rust buffers, and regions, which devices may know by a handle and other programs may write.
//!
//! A request names its data as one [`IoBuf`], which is the fast path, or as [`Segments`] of [`Region`]s. Memory that others may write at
//! the same time is never behind a Rust reference. The content of a region is copied once, or a device gets the region's address.

mod data;
mod iobuf;
mod region;

pub use data::Data;
pub use iobuf::IoBuf;
pub use region::{DeviceHandles, Origin, Region, Segment, Segments};
