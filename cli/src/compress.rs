//! `gantry compress`: blocks side by side on threads, each as a member or frame of its own.

use std::io::Read as _;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use gantry_core::{Algorithm, AlgorithmInfo, Error, Misuse, Outcome, Session, SessionParams};

use crate::args::{Compress, Format, Settings};
use crate::io::read_full;
use crate::io::{Input, Target};
use crate::output::Failure;

pub(crate) fn run(args: &Compress, settings: &Settings) -> Result<(), Failure> {
    let algorithm = match args.format {
        Format::Gzip => Algorithm::Gzip,
        Format::Zstd => Algorithm::Zstd,
    };
    let params = SessionParams::new(algorithm, &[]);
    let params = match args.level {
        Some(level) => params.level(level),
        None => params,
    };
    let session = settings.open()?.session(params).map_err(|error| match error {
        Error::Misuse(wrong @ Misuse::Level { .. }) => Failure::Usage(wrong.to_string()),
        other => other.into(),
    })?;
    let mut input = Input::open(args.input.as_deref())?;
    let target = Target::new(args.output.as_deref())?;
    if args.decompress {
        return decompress(&session, &mut input, target, args.most);
    }
    let threads = args.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    compress(&session, &mut input, target, args.block, threads)
}

/// A thread that compresses, and what goes there and comes back, one block at a time.
struct Worker {
    blocks: SyncSender<Vec<u8>>,
    results: Receiver<Result<Vec<u8>, Error>>,
}

/// Block `n` is the worker's whose turn it is, and so is result `n`: they come back in order.
fn compress(
    session: &Session,
    input: &mut Input,
    mut target: Target,
    size: usize,
    threads: usize,
) -> Result<(), Failure> {
    thread::scope(|scope| {
        let mut workers: Vec<Worker> = Vec::new();
        let (mut sent, mut written) = (0, 0);
        loop {
            let mut block = vec![0; size];
            let length = read_full(&mut input.file, &mut block).map_err(|error| input.failed(&error))?;
            block.truncate(length);
            // A file without a byte is one member, too.
            if length == 0 && sent > 0 {
                break;
            }
            // One block at work and one that waits, for each.
            if sent - written == 2 * threads {
                write_next(&workers, &mut target, &mut written)?;
            }
            if workers.len() < threads {
                let (blocks, to_do) = sync_channel::<Vec<u8>>(1);
                let (done, results) = sync_channel(1);
                scope.spawn(move || {
                    for block in to_do {
                        if done.send(member(session, &block)).is_err() {
                            break;
                        }
                    }
                });
                workers.push(Worker { blocks, results });
            }
            // It waits for blocks until it is dropped.
            let _ = workers[sent % threads].blocks.send(block);
            sent += 1;
            if length < size {
                break;
            }
        }
        while written < sent {
            write_next(&workers, &mut target, &mut written)?;
        }
        target.finish()
    })
}

fn write_next(workers: &[Worker], target: &mut Target, written: &mut usize) -> Result<(), Failure> {
    let result = workers[*written % workers.len()].results.recv();
    *written += 1;
    let member = result.map_err(|_| Failure::Failed("a thread ended".to_owned()))?;
    target.write(&member?)
}

fn member(session: &Session, block: &[u8]) -> Result<Vec<u8>, Error> {
    let mut output = vec![0; AlgorithmInfo::compressed_max(block.len())];
    let length = session.compress(block, &mut output)?;
    output.truncate(length);
    Ok(output)
}

/// The length of the result is known when it is there: it gets twice the room until it fits.
fn decompress(session: &Session, input: &mut Input, mut target: Target, most: usize) -> Result<(), Failure> {
    let longest = AlgorithmInfo::compressed_max(most);
    let mut compressed = Vec::new();
    (&input.file).take(longest as u64 + 1).read_to_end(&mut compressed).map_err(|error| input.failed(&error))?;
    if compressed.len() > longest {
        return Err(too_long(input, most));
    }
    let algorithm = session.params().algorithm();
    let mut room = compressed.len().saturating_mul(4).clamp(1 << 16, most.max(1 << 16)).min(most);
    loop {
        let mut data = vec![0; room];
        match session.decompress(&compressed, &mut data) {
            Ok(length) => {
                target.write(&data[..length])?;
                return target.finish();
            }
            Err(Error::Refused(Outcome::NoRoom)) if room < most => room = room.saturating_mul(2).min(most),
            Err(Error::Refused(Outcome::NoRoom)) => return Err(too_long(input, most)),
            Err(Error::Refused(_)) => {
                return Err(Failure::Failed(format!("{}: not compressed by {algorithm}, or damaged", input.name)));
            }
            Err(other) => return Err(other.into()),
        }
    }
}

fn too_long(input: &Input, most: usize) -> Failure {
    Failure::Failed(format!("{}: more than {most} bytes, or damaged; --most allows more", input.name))
}
