//! Algorithms and their data: the tables of algorithms, kinds and operations, parameters of sessions, memory of requests, and errors. All
//! other folders of core use this folder, which knows no device.

mod buffers;
mod direction;
mod entry_index;
mod error;
pub mod esp;
mod generators;
mod ids;
mod info;
mod kind;
mod lengths;
mod memory;
mod names;
mod operation;
mod params;
mod prehash;
mod registered;
mod row;
pub mod rsa;
mod shape;
mod table;
mod tags;

pub use buffers::Buffers;
pub use direction::Direction;
pub use error::{Error, Fault, Misuse, Outcome, Refusal, Result, Unsupported};
pub use esp::Esp;
pub use ids::Algorithm;
pub use kind::Kind;
pub use lengths::Lengths;
pub use memory::{Data, DeviceHandles, IoBuf, Origin, Region, Segment, Segments};
pub use names::{UnknownAlgorithm, same_name};
pub(crate) use operation::{AnswerField, KeyOf};
pub use operation::{FieldLength, Operation, OperationInfo};
pub use params::SessionParams;
pub use prehash::Prehash;
pub(crate) use registered::KnownAnswer;
pub use registered::{Answer, RegistrationError};
pub use row::AlgorithmInfo;
pub(crate) use shape::Shape;
pub use tags::tags_equal;
