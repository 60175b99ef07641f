//! Verification of compressed data. Devices compress to different bytes; each result is right if it decompresses to the data.

use zeroize::Zeroizing;

use super::comparison::Comparison;
use crate::algorithm::{AlgorithmInfo, Fault, Operation, Outcome};
use crate::driver::{DeviceSession, Operands, call_guarded};

/// Returns whether a session decompresses `input` to `data`.
pub(super) fn restores(session: &dyn DeviceSession, input: &[u8], data: &[u8]) -> Result<bool, Fault> {
    let (mut restored, mut length) = (Zeroizing::new(vec![0; data.len()]), 0);
    let (operation, output, written) = (Operation::Decompress, &mut restored[..], &mut length);
    let outcome = session.run(Operands::Compression { operation, input, output, written })?;
    Ok(outcome == Outcome::Done && length == data.len() && **restored == *data)
}

/// Checks the result of a request: `output`, of which the device wrote `written` bytes. If the device was wrong, replaces both with the
/// right result.
pub(super) fn check(
    reference: &dyn DeviceSession,
    (operation, input): (Operation, &[u8]),
    (output, written): (&mut [u8], &mut usize),
    outcome: Outcome,
) -> Comparison {
    let run = |output: &mut [u8], written: &mut usize| {
        call_guarded(|| reference.run(Operands::Compression { operation, input, output, written })).ok()
    };
    let result = output.get(..*written);
    if operation == Operation::Compress {
        let agrees = match outcome {
            Outcome::Done => match call_guarded(|| restores(reference, result.unwrap_or_default(), input)) {
                Ok(is_restored) => is_restored,
                Err(_) => return Comparison::None,
            },
            // The compressed length depends on the device, so a device may lack room in any buffer shorter than the maximum.
            Outcome::NoRoom => output.len() < AlgorithmInfo::compressed_max(input.len()),
            _ => false,
        };
        if agrees {
            return Comparison::Same;
        }
        return run(output, written).map_or(Comparison::None, Comparison::Differs);
    }
    let (mut expected, mut length) = (Zeroizing::new(vec![0; output.len()]), 0);
    let Some(expected_outcome) = run(&mut expected, &mut length) else { return Comparison::None };
    let agrees = match (outcome, expected_outcome) {
        (Outcome::Done, Outcome::Done) => result == expected.get(..length),
        // Damaged data may give either error, depending on how far a device reads before it checks its room.
        (first, second) => first != Outcome::Done && second != Outcome::Done,
    };
    if agrees {
        return Comparison::Same;
    }
    output.copy_from_slice(&expected);
    *written = length;
    Comparison::Differs(expected_outcome)
}
