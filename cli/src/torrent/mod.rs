//! `gantry torrent`: creates and verifies torrents of BitTorrent v1 and v2, and prints the roots of files (v2).
//!
//! | file | content |
//! |---|---|
//! | `bencode.rs`, `metainfo.rs` | parse a torrent |
//! | `merkle.rs` | the trees of v2 |
//! | `joined.rs` | the content of v1: files one after the other |
//! | `verify.rs` | compares files with a torrent |
//! | `create.rs`, `content.rs`, `entry.rs` | creates a torrent: its keys, its files, bencoding |

mod bencode;
mod content;
mod create;
mod entry;
mod joined;
mod merkle;
mod metainfo;
mod verify;

use crate::args::{Settings, Torrent, TorrentCommand};
use crate::hashing::source::Source;
use crate::hashing::threads;
use crate::hex::hex;
use crate::output::{Failure, Output, print_message};

pub(crate) fn run(args: &Torrent, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let threads = threads(settings)?;
    match &args.command {
        TorrentCommand::Create(args) => create::run(args, threads, output),
        TorrentCommand::Verify(args) => verify::run(args, threads),
        TorrentCommand::Root(args) => {
            let mut result = Ok(());
            for path in &args.files {
                let root = Source::open(path).and_then(|source| match source.length {
                    0 => Err(Failure::Failed(format!("{}: an empty file has no root", source.name))),
                    _ => merkle::root_of_file(&source, threads),
                });
                match root {
                    Ok(root) => output.write(&format!("{}  {}\n", hex(&root), path.display()))?,
                    Err(failure) => {
                        print_message(&failure.to_string());
                        result = Err(Failure::Reported);
                    }
                }
            }
            result
        }
    }
}
