//! `gantry devices`: lists the devices, or describes one.

use gantry_core::driver::Capability;
use gantry_core::{DeviceState, Gantry, RegisteredDevice};
use serde::Serialize;

use crate::args::{self, Devices, Settings};
use crate::output::{Failure, Output};
use crate::table::Table;
use crate::terminal::{self, Colour, paint};

pub(crate) fn run(args: &Devices, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let gantry = settings.open()?;
    let Some(name) = &args.name else {
        return if args.json {
            output.json(&gantry.devices().iter().map(|device| device_row(device, false)).collect::<Vec<_>>())
        } else {
            output.write(&list(&gantry))
        };
    };
    let device = &gantry.devices()[args::device(&gantry, name)?];
    if args.json { output.json(&device_row(device, true)) } else { output.write(&detail(device)) }
}

/// A device in the JSON.
#[derive(Serialize)]
struct DeviceRow<'a> {
    name: &'a str,
    class: &'static str,
    state: &'static str,
    /// The reason if the device is excluded.
    reason: Option<String>,
    description: Option<&'a str>,
    version: Option<&'a str>,
    /// True if the device says that it is a FIPS 140 validated module.
    validated: bool,
    /// The largest number of lanes of any algorithm.
    lanes: usize,
    algorithms: Vec<CapabilityRow>,
}

/// A capability of a device, in the JSON.
#[derive(Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "as a capability has them")]
struct CapabilityRow {
    algorithm: &'static str,
    operations: Vec<&'static str>,
    lanes: usize,
    /// Smallest number of requests in flight that repays the device's start; `null` if plain software is always faster.
    break_even: Option<usize>,
    /// True if the device works in the calling thread.
    direct: bool,
    in_place: bool,
    streaming: bool,
    /// True if randomized signatures can also be made deterministically.
    deterministic: bool,
    /// Most requests in the device at once; `null` if only memory limits them.
    ring: Option<usize>,
    max_bytes: Option<usize>,
    /// True if the device passed the known-answer tests of the algorithm. The tests run only if a single device is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    admitted: Option<bool>,
    /// The reason why the device did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

fn device_row(device: &RegisteredDevice, admit: bool) -> DeviceRow<'_> {
    let (state, reason) = state(device);
    DeviceRow {
        name: device.name(),
        class: device.class().name(),
        state,
        reason,
        description: device.details().map(|info| info.description.as_str()),
        version: device.details().map(|info| info.version.as_str()),
        validated: device.is_validated(),
        lanes: lanes(device),
        algorithms: device.capabilities().iter().map(|capability| capability_row(device, capability, admit)).collect(),
    }
}

fn capability_row(device: &RegisteredDevice, capability: &Capability, admit: bool) -> CapabilityRow {
    let Capability { algorithm, operations, lanes, max_in_flight, max_bytes, break_even, .. } = capability.clone();
    let Capability { synchronous, in_place, streaming, deterministic, .. } = *capability;
    let limit = |limit: usize| (limit != usize::MAX).then_some(limit);
    let admission = admit.then(|| device.admit(algorithm));
    CapabilityRow {
        algorithm: algorithm.name(),
        operations: operations.iter().map(|operation| operation.name()).collect(),
        lanes,
        break_even: limit(break_even),
        direct: synchronous,
        in_place,
        streaming,
        deterministic,
        ring: limit(max_in_flight),
        max_bytes: limit(max_bytes),
        admitted: admission.as_ref().map(Result::is_ok),
        refused: admission.and_then(Result::err).map(|error| error.to_string()),
    }
}

fn state(device: &RegisteredDevice) -> (&'static str, Option<String>) {
    match device.state() {
        DeviceState::Ready => ("ready", None),
        DeviceState::Excluded(reason) => ("excluded", Some(reason)),
        DeviceState::Quarantined => ("quarantined", None),
    }
}

fn lanes(device: &RegisteredDevice) -> usize {
    device.capabilities().iter().map(|capability| capability.lanes).max().unwrap_or(0)
}

fn list(gantry: &Gantry) -> String {
    let mut table = Table::new(&["NAME", "CLASS", "STATE", "LANES", "ALGORITHMS", "DESCRIPTION"], &[3, 4])
        .with_optional_columns(&[1]);
    for device in gantry.devices() {
        let (state, reason) = state(device);
        let [lanes, algorithms] = match reason {
            Some(_) => ["-".to_owned(), "-".to_owned()],
            None => [lanes(device).to_string(), device.capabilities().len().to_string()],
        };
        let description = device.details().map(|info| info.description.clone()).or(reason).unwrap_or_default();
        let state = if state == "quarantined" { paint(state, Colour::Red) } else { state.to_owned() };
        table.add_row([device.name().into(), device.class().name().into(), state, lanes, algorithms, description]);
    }
    table.render()
}

fn detail(device: &RegisteredDevice) -> String {
    let (state, reason) = state(device);
    let mut facts = vec![("name", device.name().to_owned()), ("class", device.class().name().to_owned())];
    facts.push(("state", reason.map_or_else(|| state.to_owned(), |reason| format!("{state}: {reason}"))));
    if let Some(info) = device.details() {
        facts.push(("description", info.description.clone()));
        facts.push(("version", info.version.clone()));
        if info.validated {
            facts.push(("validated", "says that it is a FIPS 140 validated module".to_owned()));
        }
    }
    // The name of a fact and the blank after it take 13 columns.
    let room = terminal::width().map_or(usize::MAX, |width| width.saturating_sub(13));
    let mut lines = Vec::new();
    for (name, value) in facts {
        let parts = terminal::wrap(&value, room, "");
        lines.extend(
            parts.iter().enumerate().map(|(line, part)| format!("{:<12} {part}\n", if line == 0 { name } else { "" })),
        );
    }
    let mut text = lines.concat();
    if device.capabilities().is_empty() {
        return text;
    }
    let header =
        ["ALGORITHM", "OPERATIONS", "LANES", "FROM", "DIRECT", "IN PLACE", "STREAMS", "RING", "LIMIT", "STATE"];
    // A narrow terminal omits RING first, then LIMIT, IN PLACE, STREAMS, DIRECT and OPERATIONS.
    let mut table = Table::new(&header, &[2, 3, 7, 8]).with_optional_columns(&[7, 8, 5, 6, 4, 1]);
    for capability in device.capabilities() {
        let row = capability_row(device, capability, true);
        let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
        let limit = |limit: Option<usize>| limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        table.add_row([
            row.algorithm.to_owned(),
            row.operations.join(" "),
            row.lanes.to_string(),
            limit(row.break_even),
            yes(row.direct),
            yes(row.in_place),
            yes(row.streaming),
            limit(row.ring),
            limit(row.max_bytes),
            row.refused.unwrap_or_else(|| "ready".to_owned()),
        ]);
    }
    text.push('\n');
    text += &table.render();
    text += "\nFROM: smallest number of requests in flight that repays the device's start, - if\nplain software is always faster. \
             RING: most requests in the device. LIMIT: most\nbytes per request. STATE: result of the known-answer tests.\n";
    text
}
