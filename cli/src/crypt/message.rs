//! AEADs, and ciphers that need the whole message. The message stays in memory, so that no plaintext is written before the tag is verified.

use std::io::{self, ErrorKind, Read};

use gantry_core::{Kind, Outcome};
use zeroize::Zeroizing;

use super::Job;
use crate::io::{Input, Target};
use crate::output::Failure;

pub(super) fn run(job: &Job, input: &mut Input, mut target: Target) -> Result<(), Failure> {
    let is_aead = job.algorithm().kind() == Kind::Aead;
    let tag_length = if is_aead { job.session.params().tag_len() } else { 0 };
    let mut message = Zeroizing::new(Vec::new());
    let read = input.file.read_to_end(&mut message).and_then(|_| {
        // Reserve the room for the tag here, where a lack of memory is an error. Later, it would abort the process.
        message.try_reserve_exact(if job.encrypt { tag_length } else { 0 })?;
        Ok(())
    });
    read.map_err(|error| read_failure(job, input, &error))?;
    transform(job, &input.name, &mut message, tag_length)?;
    target.write(&message)?;
    target.finish()
}

/// Encrypts or decrypts in place. The tag follows the ciphertext.
fn transform(job: &Job, name: &str, message: &mut Vec<u8>, tag_length: usize) -> Result<(), Failure> {
    let session = &job.session;
    if job.encrypt {
        message.resize(message.len() + tag_length, 0);
    }
    let length = message.len().checked_sub(tag_length).ok_or_else(|| too_short_failure(job, name))?;
    let is_aead = job.algorithm().kind() == Kind::Aead;
    let (data, tag) = message.split_at_mut(length);
    let result = match (is_aead, job.encrypt) {
        (true, true) => session.seal(&job.iv, &job.aad, data, tag),
        (true, false) => session.open(&job.iv, &job.aad, data, tag),
        (false, true) => session.encrypt(&job.iv, data),
        (false, false) => session.decrypt(&job.iv, data),
    };
    result.map_err(|error| outcome_failure(job, name, length as u64, error))?;
    if !job.encrypt {
        message.truncate(length);
    }
    Ok(())
}

fn read_failure(job: &Job, input: &Input, error: &io::Error) -> Failure {
    if error.kind() == ErrorKind::OutOfMemory {
        let text = format!("{}: too long for this memory; {} takes a message as a whole", input.name, job.algorithm());
        return Failure::Failed(text);
    }
    input.failed(error)
}

fn too_short_failure(job: &Job, name: &str) -> Failure {
    Failure::Failed(format!("{name}: shorter than its tag of {} bytes; is it cut off?", job.session.params().tag_len()))
}

fn outcome_failure(job: &Job, name: &str, length: u64, error: gantry_core::Error) -> Failure {
    match error {
        gantry_core::Error::Refused(Outcome::BadTag) => Failure::Failed(format!(
            "{name}: not authentic: the data was changed, or the key, IV, AAD or tag length is another one"
        )),
        gantry_core::Error::Refused(Outcome::BadLength) => {
            let info = job.algorithm().info();
            let limits = match (info.min_data, info.max_data) {
                (0, u64::MAX) => String::new(),
                (min, u64::MAX) => format!(" from {min} on"),
                (min, max) => format!(" from {min} to {max}"),
            };
            let step = if info.block > 1 { format!(" in steps of {}", info.block) } else { String::new() };
            Failure::Failed(format!(
                "{name}: it has {length} bytes, but {} takes lengths{limits}{step}",
                job.algorithm()
            ))
        }
        other => other.into(),
    }
}
