//! Tests of devices and their results: known answers before a device serves, verification by sampling while it does, quarantine after a
//! failure, and deadlines.

mod answer;
mod comparison;
mod compressed;
mod compression;
mod deadlines;
pub(crate) mod hex;
mod known_answers;
mod packet;
mod packets;
mod post_quantum;
mod quarantine;
mod run;
mod sample_keys;
mod sample_text;
mod shadow;
mod slh_dsa;
mod vectors;

pub(crate) use comparison::Comparison;
pub(crate) use deadlines::Deadlines;
pub(crate) use known_answers::{ANSWER_TIMEOUT_NS, Progress, RunResult, Test, TestBench, retry_timeout_ns};
pub(crate) use quarantine::Trust;
pub(crate) use run::{Failure, Run};
pub use sample_keys::{sample_key, sample_params};
pub use sample_text::sample_text;
pub(crate) use shadow::{REFERENCE_CLASS, ShadowCopy, sample_one_in};
