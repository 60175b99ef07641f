//! Memory of requests: buffers of Rust, and regions that others may know or even write.
//!
//! A request names its data as one [`IoBuf`], which is the fast path, or as [`Segments`] of [`Region`]s. Memory that others may write at
//! the same time is never a Rust reference. The content of a region is copied once, or a device gets its address.

mod data;
mod iobuf;
mod region;

pub use data::Data;
pub use iobuf::IoBuf;
pub use region::{DeviceHandles, Origin, Region, Segment, Segments};
