//! `gantry openssl info`: who would serve which algorithm, and why.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::conf::{self, Conf};
use super::{Folder, folders, module, said, setup};
use crate::output::{Failure, Output};
use crate::table::Table;

/// Lets `openssl` load the module with every algorithm, and shows the routes that it would take there.
pub(super) fn run(conf: Option<&Path>, output: &mut Output) -> Result<(), Failure> {
    let folder = Folder::new()?;
    let asked = conf.is_some();
    let conf = conf.map(Path::to_owned).or_else(|| conf::in_use().ok());
    let read = conf.as_deref().and_then(|path| Conf::read(path).ok()).unwrap_or_default();
    let mut notes = read.complaints();
    let mut command = Command::new("openssl");
    command.args(["list", "-providers"]).env("GANTRY_OPENSSL_STATS", &folder.0);
    if let Some(conf) = conf.filter(|_| asked || read.names_gantry()) {
        command.env("OPENSSL_CONF", conf);
    } else {
        // Nothing is installed: what would be, if it were.
        let module = module().ok_or_else(|| Failure::Failed(format!("there is no gantry.so in {}", folders())))?;
        let conf = folder.0.join("openssl.cnf");
        fs::write(&conf, setup::alone(&module)).map_err(|error| Failure::at(conf.display(), &error))?;
        command.env("OPENSSL_CONF", conf);
        notes.push(
            "No configuration activates it: this is what would be after gantry openssl config --system.".to_owned(),
        );
    }
    command.output().map_err(|error| Failure::at("openssl", &error))?;
    notes.extend(folder.sentences()?);
    let Some(routes) = folder.files("routes")?.into_iter().next() else {
        let notes =
            if notes.is_empty() { vec!["gantry openssl doctor -- openssl version says why".to_owned()] } else { notes };
        return Err(Failure::Failed(format!("openssl did not load gantry\n{}", notes.join("\n"))));
    };
    let text = fs::read_to_string(&routes).map_err(|error| Failure::at(routes.display(), &error))?;
    let mut lines = text.lines();
    let release = lines.next().unwrap_or_default();
    let mut table = Table::new(&["ALGORITHM", "NID", "SERVED", "64 B", "1 KiB", "16 KiB", "CLASS", "WHY"], &[1]);
    for line in lines {
        let mut cells = line.split('\t');
        let mut next = || cells.next().unwrap_or_default().to_owned();
        let (name, nid, served) = (next(), next(), next());
        let routes: Vec<String> = [next(), next(), next()].into();
        let part = |route: &String, at| route.split(' ').nth(at).unwrap_or("host").to_owned();
        let devices: Vec<String> =
            routes.iter().map(|route| if route.is_empty() { "host".into() } else { part(route, 0) }).collect();
        let (class, why) = match routes.last().filter(|route| !route.is_empty()) {
            Some(route) => (part(route, 1), part(route, 2)),
            None => ("software".to_owned(), "host-only".to_owned()),
        };
        let served = if served == "yes" { "yes".to_owned() } else { "if asked".to_owned() };
        table.row([name, nid, served, devices[0].clone(), devices[1].clone(), devices[2].clone(), class, why]);
    }
    output.write(&format!(
        "{release}. The policy names the devices; a program goes to them where they prove faster than the host there.\n\
         \"if asked\": only with CIPHERS, DIGESTS, MACS, SIGNATURES or KEY_EXCHANGE in the configuration.\n\n{}{}",
        table.render(),
        said(&notes)
    ))
}
