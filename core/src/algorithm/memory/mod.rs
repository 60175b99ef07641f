//! Memory of requests: buffers of Rust's, and regions that others may know or even write.
//!
//! A request names its data as one [`IoBuf`], which is the fast path, or as [`Segments`] of [`Region`]s. Memory that others write
//! while it is read is never a Rust reference: what a region holds is copied, once, or handed to a device as an address.

mod data;
mod iobuf;
mod region;
mod segment;

pub use data::Data;
pub use iobuf::IoBuf;
pub use region::{DeviceHandles, Origin, Region};
pub use segment::{Segment, Segments};
