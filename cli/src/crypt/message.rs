//! AEADs, and ciphers that take a message as a whole. It lies in a file without a name that is mapped into memory.

use std::io::{self, ErrorKind, Seek, SeekFrom, Write};

use gantry::{Kind, Outcome};

use super::Job;
use super::sys::Map;
use crate::data::{Input, Scratch, Target};
use crate::output::Failure;

pub(super) fn run(job: &Job, input: &mut Input, target: Target) -> Result<(), Failure> {
    let mut spare = None;
    let scratch = match &target {
        Target::Named { scratch, .. } => scratch,
        Target::Open { .. } => spare.insert(Scratch::unnamed()?),
    };
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => scratch.failed(&error),
        _ => input.failed(&error),
    };
    // Every byte is written here before it is mapped: a disk that is full says so now, and not by a signal.
    io::copy(&mut &input.file, &mut &scratch.file).map_err(failed)?;
    let tag = transform(job, &input.name, scratch)?;
    let whole = (&scratch.file).seek(SeekFrom::End(0)).and_then(|_| (&scratch.file).write_all(&tag));
    let whole = whole.and_then(|()| scratch.file.try_clone()).map_err(|error| scratch.failed(&error))?;
    target.finish_with(&whole)
}

/// Turns the message in the file into what becomes of it, and gives the tag that is to follow.
fn transform(job: &Job, name: &str, scratch: &Scratch) -> Result<Vec<u8>, Failure> {
    let session = &job.session;
    let length = scratch.file.metadata().map_err(|error| scratch.failed(&error))?.len();
    let is_aead = job.algorithm().kind() == Kind::Aead;
    let tag_length = if is_aead { session.params().tag_length() } else { 0 };
    let data = if job.encrypt { Some(length) } else { length.checked_sub(tag_length as u64) };
    let data = data.ok_or_else(|| short(job, name))?;
    let Ok(addressable) = usize::try_from(length) else {
        return Err(Failure::Failed(format!("{name}: {length} bytes are more than this machine can address")));
    };
    let mut map = Map::new(scratch, addressable).map_err(|error| scratch.failed(&error))?;
    // `length` fits, and `data` is no more.
    let (data, tag) = map.bytes().split_at_mut(data as usize);
    let kept = data.len() as u64;
    let mut new_tag = vec![0; if job.encrypt { tag_length } else { 0 }];
    let result = match (is_aead, job.encrypt) {
        (true, true) => session.seal(&job.iv, &job.aad, data, &mut new_tag),
        (true, false) => session.open(&job.iv, &job.aad, data, tag),
        (false, true) => session.encrypt(&job.iv, data),
        (false, false) => session.decrypt(&job.iv, data),
    };
    result.map_err(|error| refused(job, name, kept, error))?;
    drop(map);
    scratch.file.set_len(kept).map_err(|error| scratch.failed(&error))?;
    Ok(new_tag)
}

fn short(job: &Job, name: &str) -> Failure {
    Failure::Failed(format!("{name}: shorter than a tag of {} bytes: cut off?", job.session.params().tag_length()))
}

fn refused(job: &Job, name: &str, length: u64, error: gantry::Error) -> Failure {
    match error {
        gantry::Error::Refused(Outcome::BadTag) => Failure::Failed(format!(
            "{name}: not authentic: the data was changed, or the key, IV, AAD or tag length is another one"
        )),
        gantry::Error::Refused(Outcome::BadLength) => {
            let info = job.algorithm().info();
            let limits = match (info.min_data, info.max_data) {
                (0, u64::MAX) => String::new(),
                (min, u64::MAX) => format!(" from {min} on"),
                (min, max) => format!(" from {min} to {max}"),
            };
            let step = if info.block > 1 { format!(" in steps of {}", info.block) } else { String::new() };
            Failure::Failed(format!("{name}: {length} bytes, and {} takes lengths{limits}{step}", job.algorithm()))
        }
        other => other.into(),
    }
}
