//! `gantry torrent`: pieces of BitTorrent v1, and roots of v2.
//!
//! | file | content |
//! |---|---|
//! | `bencode.rs`, `metainfo.rs` | read a torrent |
//! | `merkle.rs` | the trees of v2 |
//! | `verify.rs` | compares files with a torrent |

mod bencode;
mod merkle;
mod metainfo;
mod verify;

use crate::args::{Settings, Torrent, TorrentCommand};
use crate::hex::hex;
use crate::output::{Failure, Output, say};
use crate::verity::source::Source;
use crate::verity::threads;

pub(crate) fn run(args: &Torrent, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let threads = threads(settings)?;
    match &args.command {
        TorrentCommand::Verify(args) => verify::run(args, threads),
        TorrentCommand::Root(args) => {
            let mut result = Ok(());
            for path in &args.files {
                let root = Source::open(path).and_then(|source| match source.length {
                    0 => Err(Failure::Failed(format!("{}: a file without bytes has no root", source.name))),
                    _ => merkle::root_of_file(&source, threads),
                });
                match root {
                    Ok(root) => output.write(&format!("{}  {}\n", hex(&root), path.display()))?,
                    Err(failure) => {
                        say(&failure.to_string());
                        result = Err(Failure::Said);
                    }
                }
            }
            result
        }
    }
}
