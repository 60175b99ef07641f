//! `gantry openssl info`: who would serve which algorithm, and why.

use std::fs;
use std::path::Path;

use super::ask::{Row, ask};
use super::conf::{self, Conf};
use super::{folders, module, said, setup};
use crate::output::{Failure, Output};
use crate::table::Table;
use crate::temporary::Folder;

/// Lets `openssl` load the module with every algorithm, and shows the routes that it would take there.
pub(super) fn run(conf: Option<&Path>, output: &mut Output) -> Result<(), Failure> {
    let folder = Folder::new()?;
    let asked = conf.is_some();
    let conf = conf.map(Path::to_owned).or_else(|| conf::in_use().ok());
    let read = conf.as_deref().and_then(|path| Conf::read(path).ok()).unwrap_or_default();
    let mut notes = read.complaints();
    let installed = conf.filter(|_| asked || read.names_gantry());
    let conf = installed.clone().unwrap_or_else(|| folder.path().join("openssl.cnf"));
    if installed.is_none() {
        // What would be, if it were.
        let module = module().ok_or_else(|| Failure::Failed(format!("there is no gantry.so in {}", folders())))?;
        fs::write(&conf, setup::alone(&module, "")).map_err(|error| Failure::at(conf.display(), &error))?;
        notes.push(
            "No configuration activates it: this is what would be after gantry openssl config --system.".to_owned(),
        );
    }
    let answer = match ask(&conf, &folder)? {
        Ok(answer) => answer,
        Err(sentences) => {
            notes.extend(sentences);
            if notes.is_empty() {
                notes.push("gantry openssl doctor -- openssl version says why".to_owned());
            }
            return Err(Failure::Failed(format!("openssl did not load gantry\n{}", notes.join("\n"))));
        }
    };
    notes.extend(answer.notes);
    let mut table =
        Table::new(&["ALGORITHM", "NID", "SERVED", "64 B", "1 KiB", "16 KiB", "CLASS", "WHY", "GAIN"], &[1, 8]);
    for row in answer.rows {
        table.row(cells(&row));
    }
    output.write(&format!(
        "{}. The policy names a device for each size, and in a trial it has to prove faster than the host.\n\
         CLASS, WHY and GAIN (host / device, of a trial) are those of 16 KiB. \"company\": with requests of other threads.\n\
         CIPHERS, DIGESTS, MACS, SIGNATURES and KEY_EXCHANGE in the configuration say what is served.\n\n{}{}",
        answer.release,
        table.render(),
        said(&notes)
    ))
}

fn cells(row: &Row) -> [String; 9] {
    let device = |at: usize| row.routes.get(at).map_or("host", |route| &route.device).to_owned();
    let (class, why) = row.routes.last().map_or(("software", "host-only"), |route| (&route.class, &route.why));
    let gain = row.routes.last().and_then(|route| route.gain);
    [
        row.name.clone(),
        row.number.clone(),
        if row.served { "yes" } else { "no" }.to_owned(),
        device(0),
        device(1),
        device(2),
        class.to_owned(),
        why.to_owned(),
        gain.map_or_else(|| "-".to_owned(), |gain| format!("{gain:.2}x")),
    ]
}
